"""Use Zishu inside other tools: spaCy. Each needs its extra, and nothing else imports them."""
