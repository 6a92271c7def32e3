// The rights that a session asks for, one dialog after the other, the oldest first. What is put off stays on the page,
// where it stands without scripts too, and is not shown again until the page is opened anew.
import { toast } from "../app.js";

class RightsAsked extends HTMLElement {
  connectedCallback() {
    this.later = new Set();
    this.addEventListener("submit", (event) => this.decide(event));
    // Esc closes a dialog too; neither decides anything.
    this.addEventListener("close", (event) => this.closed(event.target), true);
    document.addEventListener("holdfast:live", (this.heard = (event) => this.hear(event.detail)));
    document.addEventListener("focusout", (this.left = () => setTimeout(() => this.show())));
    this.show();
  }

  disconnectedCallback() {
    document.removeEventListener("holdfast:live", this.heard);
    document.removeEventListener("focusout", this.left);
  }

  get queue() {
    return [...this.querySelectorAll("dialog")].filter((dialog) => !this.later.has(dialog.id));
  }

  show() {
    // Who is writing is not interrupted: what they type would land in a dialog that they have not read.
    const at = document.activeElement;
    const writes = at?.matches("input, textarea, select") && !at.closest("dialog:not([open])") && at.value !== at.defaultValue;
    const [next] = this.queue;
    if (next && !writes && !document.querySelector("dialog[open]")) next.showModal();
    this.count();
  }

  count() {
    const all = this.queue;
    for (const [at, dialog] of all.entries()) {
      const told = this.dataset.of.replace("{number}", String(at + 1)).replace("{all}", String(all.length));
      dialog.querySelector("[data-place]").textContent = all.length > 1 ? told : "";
    }
  }

  closed(dialog) {
    if (this.contains(dialog) && !dialog.dataset.over) this.later.add(dialog.id);
    this.show();
  }

  async hear(topics) {
    // What it tells meanwhile asks for nothing.
    if (!topics.some((topic) => topic.startsWith("session.") && topic !== "session.told")) return;
    const answer = await fetch(this.dataset.url);
    if (!answer.ok) return;
    // The server's own markup, escaped there.
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const now = new Map([...page.querySelectorAll("rights-asked dialog")].map((dialog) => [dialog.id, dialog]));
    for (const dialog of [...this.querySelectorAll("dialog")]) {
      if (!now.has(dialog.id)) this.end(dialog, dialog.open && !dialog.dataset.sent ? this.dataset.gone : "");
      now.delete(dialog.id);
    }
    this.append(...now.values());
    this.show();
  }

  async decide(event) {
    const dialog = event.target.closest("dialog");
    if (!dialog || event.target.method === "dialog") return;
    event.preventDefault();
    if (dialog.dataset.sent) return;
    dialog.dataset.sent = "yes";
    const body = new URLSearchParams(new FormData(event.target, event.submitter));
    const answer = await fetch(event.target.action, { method: "POST", body }).catch(() => null);
    const page = new DOMParser().parseFromString((await answer?.text()) ?? "", "text/html");
    if (answer?.ok || answer?.status === 409) {
      this.end(dialog, answer.ok ? page.querySelector(".notice")?.textContent : this.dataset.gone);
      return;
    }
    delete dialog.dataset.sent;
    const problem = dialog.querySelector("[role=alert]");
    problem.textContent = page.querySelector("main p")?.textContent ?? this.dataset.failed;
    problem.hidden = false;
  }

  end(dialog, told) {
    dialog.dataset.over = "yes";
    if (dialog.open) dialog.close();
    dialog.remove();
    if (told) toast(told);
    this.show();
  }
}

customElements.define("rights-asked", RightsAsked);
