// What happens in every workspace that one sees, told to every open tab over one connection: the tab that holds the
// lock listens for all.
//
// A part of a page says what concerns it: <section data-live="memory audit.key" hx-get="…" hx-trigger="live">. It hears
// of its own workspace and of the organization; with data-everywhere, of every workspace.

const QUIET_MILLIS = 250;
const AGAIN_MILLIS = 2000;
const GAP = "stream.gap";
let waiting = [];
let timer = 0;

// Whether somebody fills in a form or answers a dialog there: what they began must not change under their hands.
function isWorkedIn(part) {
  const fields = [...part.querySelectorAll("input:not([type=hidden]), textarea")];
  const isBegun = (field) =>
    field.type === "checkbox" || field.type === "radio"
      ? field.checked !== field.defaultChecked
      : field.value !== field.defaultValue;
  const at = document.activeElement;
  return Boolean(
    part.querySelector("dialog[open]") ||
      (at !== part && part.contains(at) && at.matches("input, textarea, select")) ||
      fields.some(isBegun),
  );
}

const postponed = new WeakSet();

function refresh(part) {
  if (!isWorkedIn(part)) {
    window.htmx?.trigger(part, "live");
  } else if (!postponed.has(part)) {
    postponed.add(part);
    setTimeout(() => {
      postponed.delete(part);
      if (part.isConnected) refresh(part);
    }, AGAIN_MILLIS);
  }
}

function tell(told, here) {
  waiting.push(told);
  // Not put off by what comes in between: an agent that talks without a pause is to be seen while it does.
  timer ||= setTimeout(() => {
    timer = 0;
    const events = waiting;
    waiting = [];
    const concerns = (part) => {
      // Whoever read on, past the first page, keeps their place.
      if ("paged" in part.dataset) return false;
      const wanted = part.dataset.live.split(" ");
      const everywhere = "everywhere" in part.dataset;
      return events.some(
        ({ topic, workspace }) =>
          topic === GAP ||
          ((everywhere || !workspace || workspace === here) &&
            (wanted.includes(topic.split(".")[0]) || wanted.includes(topic))),
      );
    };
    for (const part of document.querySelectorAll("[data-live]")) {
      if (concerns(part)) refresh(part);
    }
    const own = events.filter(({ workspace }) => workspace === here).map(({ topic }) => topic);
    if (own.length) document.dispatchEvent(new CustomEvent("holdfast:live", { detail: own }));
  }, QUIET_MILLIS);
}

// EventSource hears only names that it was told; topics are an open list, so the lines are read here.
export async function events(url, since, hear, signal) {
  let last = since;
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

export function follow(workspace, since) {
  const name = "holdfast events";
  const channel = new BroadcastChannel(name);
  channel.onmessage = (message) => tell(message.data, workspace);
  const closing = new AbortController();
  window.addEventListener("pagehide", () => closing.abort());
  const listen = () =>
    events(
      "/api/events",
      since,
      (topic, data) => {
        const told = { topic, workspace: JSON.parse(data).workspace_id };
        tell(told, workspace);
        channel.postMessage(told);
      },
      closing.signal,
    );
  if (navigator.locks) navigator.locks.request(name, { signal: closing.signal }, listen).catch(() => {});
  else listen();
}
