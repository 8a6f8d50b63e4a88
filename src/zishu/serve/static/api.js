// The service, as far as the page needs it.

const TOKEN = "zishu-token"; // in the session's storage: it is gone when the tab is closed

export const hasToken = () => sessionStorage.getItem(TOKEN) !== null;

export const setToken = (token) => sessionStorage.setItem(TOKEN, token);

/** What the service refused or could not do; `status` is 0 if it cannot be reached. */
export class ServiceError extends Error {
  constructor(status, { code = "", message = "" } = {}, retryAfter = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** Parse a text under constraints in a style ("" for the default one); return the model's name and the sentences, each as the list of its analyses. */
export async function parse(text, { pins, breaks }, style, kbest, signal) {
  const body = { text, kbest };
  if (style) body.style = style;
  if (pins.length) body.pins = pins;
  if (breaks.length) body.breaks = breaks;
  const { model, documents } = await post("v1/parse", body, signal);
  const sentences = documents[0].sentences.map(({ alternatives, ...sentence }) => alternatives ?? [sentence]);
  return { model, sentences };
}

const PART = 200_000; // letters of JSON that are sent back at once

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
    documents.push(...(await post("v1/convert", body)).documents);
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

async function post(path, body, signal) {
  const headers = { "Content-Type": "application/json" };
  const token = sessionStorage.getItem(TOKEN);
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body), headers, signal });
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
