// What every page has alive: dates in the reader's way, the menu, live parts, the palette, keys, copying, undo.
import { follow } from "./live.js";
import { keys } from "./keys.js";
import { unsent } from "./unsent.js";

const meta = (name) => document.querySelector(`meta[name="${name}"]`);
export const csrf = () => meta("csrf")?.content ?? "";

const language = document.documentElement.lang || "en";
const moment = new Intl.DateTimeFormat([...navigator.languages, language], { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat([...navigator.languages, language], { dateStyle: "medium" });

export function localise(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([data-local])")) {
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = (time.hasAttribute("data-day") ? day : moment).format(at);
    time.dataset.local = "";
  }
}

export function toast(text) {
  const line = document.createElement("p");
  line.textContent = text;
  document.getElementById("toasts").append(line);
  setTimeout(() => line.remove(), 4000);
}

// Sends a body with its progress (which `fetch` does not tell): whether it was taken, and the answer or the reason.
export function sent(url, body, progress, headers) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.open("POST", url);
    for (const [name, value] of Object.entries(headers)) request.setRequestHeader(name, value);
    request.upload.onprogress = (event) => {
      if (event.lengthComputable) progress(event.loaded / event.total);
    };
    request.onloadend = () => {
      let answer = null;
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        // What stands between here and the server answers in its own way.
      }
      const ok = request.status >= 200 && request.status < 300;
      resolve({ ok, body: answer, reason: answer?.error?.message ?? (request.statusText || String(request.status)) });
    };
    request.send(body);
  });
}

// The navigation is longer than most screens: where one is stands in sight.
const here = document.querySelector(".side > ul [aria-current]");
const side = document.getElementById("side");
if (here && side) {
  const below = here.getBoundingClientRect().bottom - side.querySelector(".who").getBoundingClientRect().top;
  if (below > 0) side.scrollTop += below + 8;
}

localise(document);
document.addEventListener("htmx:after:swap", () => localise(document));
document.addEventListener("htmx:before:request", (event) => {
  const more = event.target.closest?.(".more");
  if (more) more.closest("[data-live]")?.setAttribute("data-paged", "");
});

document.addEventListener("click", async (event) => {
  const menu = event.target.closest("[data-menu]");
  if (menu) {
    const open = side.classList.toggle("open");
    menu.setAttribute("aria-expanded", String(open));
    if (open) side.querySelector("a").focus();
  } else if (side.classList.contains("open") && !side.contains(event.target)) {
    closeMenu();
  }
  const copy = event.target.closest("[data-copy]");
  if (copy) {
    const text = document.getElementById(copy.dataset.copy)?.textContent ?? copy.dataset.copy;
    await navigator.clipboard.writeText(text.trim());
    toast(copy.dataset.copied ?? "✓");
  }
  const opener = event.target.closest("[data-open]");
  if (opener) document.getElementById(opener.dataset.open)?.showModal();
  if (event.target.closest("[data-close]")) {
    const dialog = event.target.closest("dialog");
    dialog.querySelectorAll("form").forEach((form) => form.reset());
    dialog.close();
  }
});

function closeMenu() {
  document.getElementById("side").classList.remove("open");
  document.querySelector("[data-menu]").setAttribute("aria-expanded", "false");
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeMenu();
});

// A form that says what it will do asks once more; without scripts it just does it.
document.addEventListener("submit", (event) => {
  const asked = event.target.dataset?.confirm;
  if (asked && !window.confirm(asked)) event.preventDefault();
});

// What is on its way is not sent a second time by an impatient hand. Downloads leave the page where it is: they may be asked
// for again after a while.
const AGAIN_MILLIS = 5000;
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (event.defaultPrevented || form.method !== "post") return;
  if ("sent" in form.dataset) {
    event.preventDefault();
    return;
  }
  form.dataset.sent = "";
  event.submitter?.setAttribute("aria-busy", "true");
  setTimeout(() => again(form), AGAIN_MILLIS);
});

function again(form) {
  delete form.dataset.sent;
  form.querySelector("[aria-busy]")?.removeAttribute("aria-busy");
}

// Whoever comes back to a page finds its forms as they were before.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) document.querySelectorAll("form[data-sent]").forEach(again);
});

// What a form cannot be sent without switches its button on.
function fit(root) {
  for (const button of root.querySelectorAll("button[data-needs]")) {
    button.disabled = !button.form.elements[button.dataset.needs].value;
  }
}
document.addEventListener("input", (event) => event.target.form && fit(event.target.form));
document.addEventListener("htmx:after:swap", () => fit(document));
window.addEventListener("pageshow", () => fit(document));

// A choice that stands for a whole form sends it at once.
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
});

// A link to something that is folded up unfolds it.
function unfold() {
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (wanted instanceof HTMLDetailsElement) wanted.open = true;
}
window.addEventListener("hashchange", unfold);
unfold();

follow(meta("workspace")?.content, meta("since").content);
keys();
unsent();
// Tests and other scripts can tell that keys and live parts work from here on.
document.documentElement.dataset.ready = "";
