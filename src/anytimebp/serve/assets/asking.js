// Requests to the server that has sent this page, and nothing else.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.detail || "The server has refused this");
    this.status = status;
    this.error = problem.error || "";
  }
}

async function answered(response) {
  if (response.ok) return response;
  let problem = {};
  try { problem = await response.json(); } catch { /* not ours */ }
  throw new Refused(response.status, problem);
}

export async function get(path, parameters = {}) {
  const asked = new URLSearchParams(parameters).toString();
  return (await answered(await fetch(asked ? `${path}?${asked}` : path, { cache: "no-store" }))).json();
}

function posted(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function post(path, body, signal) {
  return (await answered(await fetch(path, posted(body, signal)))).json();
}

// Calls `tell(kind, data)` for each server-sent event until the stream ends.
export async function follow(path, body, signal, tell) {
  const response = await answered(await fetch(path, posted(body, signal)));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let waiting = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (waiting + value).split("\n\n");
    waiting = parts.pop();
    for (const part of parts) {
      const [kind, data] = part.split("\n");
      tell(kind.slice("event: ".length), JSON.parse(data.slice("data: ".length)));
    }
  }
}
