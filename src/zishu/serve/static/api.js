// The requests that the page sends to the service.

const TOKEN = "zishu-token"; // key in the session storage, which is deleted when the tab is closed

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);

/** An error of the service; `status` is 0 if it cannot be reached. */
export class ServiceError extends Error {
  constructor(status, { code = "", message = "" } = {}, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

const SOFT_WEIGHT = 4; // weight of a soft lexicon

/**
 * Parse a text under constraints. `options` may have a `style`, a `lexicon`, `soft` for a soft lexicon, and any other
 * option of the service; empty options are not sent. Return the model's name and the sentences, each as a list of
 * analyses.
 */
export async function parse(text, constraints, { soft, ...options }, kBest, signal) {
  const weight = soft && options.lexicon.length ? SOFT_WEIGHT : null;
  const all = Object.entries({ ...options, lexicon_weight: weight, ...constraints });
  const wanted = all.filter(([, value]) => value && value.length !== 0);
  const body = { text, k_best: kBest, ...Object.fromEntries(wanted) };
  const { model, documents } = await send("v1/parse", body, signal);
  const sentences = documents[0].sentences.map(({ alternatives, ...sentence }) => alternatives ?? [sentence]);
  return { model, sentences };
}

/** Return the description of the model, with its relations and parts of speech. */
export const describe = () => send("v1/model");

const PART = 200_000; // maximum length of the JSON in one request

/**
 * Write sentences of a text, as the service sent them, in another format: "conllu" or "svg". `first` is the number of
 * the first one. Return the documents, one for each part of a long list.
 */
export async function convert(text, sentences, first, format) {
  const documents = [];
  let part = [];
  let size = 0;
  const flush = async () => {
    const body = { text, sentences: part, first, format };
    documents.push(...(await send("v1/convert", body)).documents);
    first += part.length;
    part = [];
    size = 0;
  };
  for (const sentence of sentences) {
    const length = JSON.stringify(sentence).length;
    if (part.length && size + length > PART) await flush();
    part.push(sentence);
    size += length;
  }
  await flush();
  return documents;
}

/** Send a request to the service: POST with a body, otherwise GET. */
async function send(path, body, signal) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, {
      method: body ? "POST" : "GET",
      body: body && JSON.stringify(body),
      headers,
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0);
  }
  const answer = await response.json().catch(() => null);
  if (!response.ok) {
    throw new ServiceError(response.status, answer?.error, response.headers.get("Retry-After"));
  }
  if (answer === null) throw new ServiceError(502);
  return answer;
}
