// What happens in a workspace, told to every open tab over one connection: the tab that holds the lock listens for all.
//
// A part of a page says what concerns it: <section data-live="memory document" hx-get="…" hx-trigger="live">.

const QUIET_MILLIS = 250;
const AGAIN_MILLIS = 2000;
let waiting = new Set();
let timer = 0;

function tell(topic) {
  waiting.add(topic);
  clearTimeout(timer);
  timer = setTimeout(() => {
    const topics = [...waiting];
    waiting = new Set();
    for (const part of document.querySelectorAll("[data-live]")) {
      const wanted = part.dataset.live.split(" ");
      if (topics.some((each) => wanted.includes(each.split(".")[0]) || wanted.includes(each))) {
        window.htmx?.trigger(part, "live");
      }
    }
    document.dispatchEvent(new CustomEvent("holdfast:live", { detail: topics }));
  }, QUIET_MILLIS);
}

// EventSource hears only names that it was told; topics are an open list, so the lines are read here.
export async function events(url, hear, signal) {
  let last = "";
  while (!signal?.aborted) {
    try {
      const answer = await fetch(url, { headers: last ? { "Last-Event-ID": last } : {}, signal });
      if (answer.status === 401 || answer.status === 403 || answer.status === 404) return;
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let held = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        held += value;
        let end;
        while ((end = held.indexOf("\n\n")) >= 0) {
          const fields = { event: "", data: "" };
          for (const line of held.slice(0, end).split("\n")) {
            const colon = line.indexOf(":");
            if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 1).trimStart();
          }
          held = held.slice(end + 2);
          if (fields.id) last = fields.id;
          if (fields.event) hear(fields.event, fields.data);
        }
      }
    } catch (problem) {
      if (problem.name === "AbortError") return;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MILLIS));
  }
}

export function follow(workspace) {
  if (!workspace) return;
  const channel = new BroadcastChannel(`holdfast ${workspace}`);
  channel.onmessage = (message) => tell(message.data);
  const closing = new AbortController();
  window.addEventListener("pagehide", () => closing.abort());
  const listen = () =>
    events(
      `/api/workspaces/${workspace}/events`,
      (topic) => {
        tell(topic);
        channel.postMessage(topic);
      },
      closing.signal,
    );
  if (navigator.locks) navigator.locks.request(`holdfast ${workspace}`, { signal: closing.signal }, listen).catch(() => {});
  else listen();
}
