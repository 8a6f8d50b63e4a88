"""Zishu inside other tools: spaCy, Ray. Each needs its extra, and nothing else imports them."""
