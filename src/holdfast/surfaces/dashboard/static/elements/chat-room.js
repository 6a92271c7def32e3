// One conversation: sends what a person writes to the endpoint that every client uses, shows the answer while it comes,
// and puts the server's own rendering in its place when it is complete.
import { csrf, localise, toast } from "../app.js";
import { Draft } from "./chat-draft.js";
import { answerOf, textOf } from "./chat-answers.js";
import { Progress } from "./chat-progress.js";
import { events } from "./chat-wire.js";

const NEAR_END = 80;
const CHOSEN = "holdfast chat tools";
const WAY = "holdfast way between branches";

class ChatRoom extends HTMLElement {
  connectedCallback() {
    this.words = JSON.parse(this.dataset.words);
    this.thread = this.querySelector("#thread");
    this.scroller = this.querySelector(".scroller");
    this.form = this.querySelector("form.composer");
    this.running = null;
    this.addEventListener("click", (event) => this.clicked(event));
    this.addEventListener("submit", (event) => this.submitted(event));
    this.addEventListener("keydown", (event) => this.keyed(event));
    // Esc acts wherever the focus is: it leaves the page's parts when a form is closed or a button goes away.
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.escaped(event);
    });
    document.addEventListener("click", (event) => {
      if (event.target.closest("[data-aside]")) this.showAside();
      this.closeMenus(event.target);
    });
    document.addEventListener("holdfast:live", (event) => {
      if (event.detail.some((topic) => topic.startsWith("chat.") || topic.startsWith("approval."))) this.heard();
    });
    if (this.form) this.prepare();
    const wanted = location.hash.slice(1) && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (wanted) wanted.scrollIntoView({ block: "center" });
    else if (!this.stayAtBranches()) this.toEnd();
  }

  prepare() {
    this.text = this.form.elements.text;
    this.text.addEventListener("input", () => this.grow());
    this.form.querySelector("[type=file]")?.addEventListener("change", (event) => this.attach([...event.target.files]));
    const chosen = (localStorage.getItem(CHOSEN) ?? "").split(" ");
    for (const box of this.form.querySelectorAll("[name=tool]")) box.checked = chosen.includes(box.value);
    this.form.addEventListener("change", () => this.chose());
    this.chose();
    if (matchMedia("(min-width: 761px)").matches) this.text.focus({ preventScroll: true });
  }

  // Who goes from branch to branch stays where they part, and can go on the same way.
  stayAtBranches() {
    const way = sessionStorage.getItem(WAY);
    sessionStorage.removeItem(WAY);
    const at = new URLSearchParams(location.search).get("at");
    const branches = way && at && document.getElementById(at)?.querySelector(".branches");
    if (!branches) return false;
    branches.scrollIntoView({ block: "center" });
    (branches.querySelector(`a:${way}`) ?? branches.querySelector("a")).focus({ preventScroll: true });
    return true;
  }

  // What the person does.

  clicked(event) {
    const message = event.target.closest(".message");
    const branch = event.target.closest(".branches a");
    if (branch) sessionStorage.setItem(WAY, branch.matches(":last-child") ? "last-child" : "first-child");
    if (event.target.closest("[hx-target='#manager']")) this.showAside(true);
    if (event.target.closest("[data-stop]")) this.stop();
    else if (event.target.closest("[data-edit]")) this.edit(message);
    else if (event.target.closest("[data-cancel]")) this.refresh();
    else if (event.target.closest("[data-retry]")) this.retry(message);
    else if (event.target.closest("[data-copy-message]")) {
      const written = message.querySelector(".source-text")?.content ?? message.querySelector(".said");
      navigator.clipboard.writeText(written.textContent);
      toast(event.target.closest("[data-copy-message]").dataset.copied);
    }
  }

  submitted(event) {
    const form = event.target;
    if (form === this.form) {
      event.preventDefault();
      this.say(this.text.value);
    } else if (form.matches("form.edit")) {
      event.preventDefault();
      const message = form.closest(".message");
      const text = form.elements.text.value.trim();
      if (!text) return;
      this.cut(message);
      this.send({ text, parent: message.dataset.parent });
    } else if (form.matches("form.approval")) {
      event.preventDefault();
      this.decide(form, event.submitter);
    } else if (form.matches("form.reply")) {
      event.preventDefault();
      const answer = answerOf(form, event.submitter);
      if (answer === undefined) return;
      const message = form.closest(".message");
      form.querySelectorAll("button, input").forEach((each) => (each.disabled = true));
      this.send({ text: textOf(answer), parent: message.dataset.id, ask: { correlation_id: form.dataset.correlation, answer } });
    }
  }

  // A call that waits is decided here; the turn goes on by itself, and is heard of.
  async decide(form, button) {
    const buttons = form.querySelectorAll("button, input");
    const body = JSON.stringify({ decision: button.value, session: Boolean(form.elements.session?.checked) });
    buttons.forEach((each) => (each.disabled = true));
    const answer = await fetch(`/api/approvals/${form.dataset.approval}`, { method: "POST", headers: this.headers(), body });
    if (answer.ok) {
      await this.refresh();
      this.text?.focus({ preventScroll: true });
      return;
    }
    const told = await answer.json().catch(() => null);
    const line = form.querySelector(".wrong");
    line.textContent = told?.error?.message ?? answer.statusText;
    line.classList.remove("hidden");
    buttons.forEach((each) => (each.disabled = false));
  }

  keyed(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.matches("textarea")) {
      event.preventDefault();
      event.target.form.requestSubmit();
    }
  }

  escaped(event) {
    this.showAside(false);
    this.closeMenus(null);
    if (this.running) this.stop();
    else if (event.target.closest?.("form.edit")) this.refresh();
  }

  say(text) {
    if (!text.trim() || this.running) return;
    this.text.value = "";
    this.grow();
    const last = [...this.thread.querySelectorAll(".message[data-id]")].at(-1);
    this.send({ text: text.trim(), parent: last?.dataset.id });
  }

  edit(message) {
    this.last = undefined;
    const said = message.querySelector(".said");
    const form = document.createElement("form");
    form.className = "edit";
    const field = document.createElement("textarea");
    field.name = "text";
    field.value = said.textContent;
    field.setAttribute("aria-label", this.words.edit);
    const send = document.createElement("button");
    send.textContent = this.words.resend;
    const cancel = document.createElement("button");
    cancel.type = "button";
    cancel.className = "plain";
    cancel.dataset.cancel = "";
    cancel.textContent = this.words.cancel;
    const row = document.createElement("div");
    row.className = "row";
    row.append(send, cancel);
    form.append(field, row);
    said.replaceWith(form);
    field.focus();
  }

  retry(message) {
    let asked = message.dataset.role === "user" ? message : message.previousElementSibling;
    while (asked && asked.dataset.role !== "user") asked = asked.previousElementSibling;
    if (!asked || this.running) return;
    this.cut(asked.nextElementSibling);
    asked.querySelector("[data-retry]")?.remove();
    this.send({ text: asked.querySelector(".said").textContent, parent: asked.dataset.parent, again: true });
  }

  cut(first) {
    while (first?.nextElementSibling) first.nextElementSibling.remove();
    first?.remove();
  }

  // A turn.

  async send({ text, parent, ask, again }) {
    if (this.running) return;
    this.running = new AbortController();
    this.closeMenus(null);
    this.last = undefined;
    // Whatever branch was looked at, this one is the newest now.
    if (!("new" in this.dataset)) history.replaceState(null, "", this.dataset.url);
    this.busy(true);
    this.thread.querySelector(".welcome")?.remove();
    const mine = this.bubble("mine", text);
    if (!again) this.thread.append(mine);
    const bubble = this.bubble("answer");
    const progress = new Progress(bubble, this.words);
    const prose = bubble.appendChild(document.createElement("div"));
    prose.className = "prose";
    const draft = new Draft(prose);
    this.thread.append(bubble);
    this.toEnd();
    let told = null;
    let problem = "";
    try {
      for await (const event of events(this.address(), this.body(text, parent, ask), this.headers(), this.running.signal)) {
        const follow = this.isAtEnd();
        if (event.type === "x_chat.metadata") told = event;
        else if (event.type) progress.tell(event);
        const words = event.choices?.[0]?.delta?.content;
        if (words) {
          progress.speaks();
          draft.append(words);
        }
        if (follow) this.toEnd();
      }
    } catch (error) {
      problem = error.name === "AbortError" ? this.words.stopped : `${this.words.failed}: ${error.message}`;
    }
    this.running = null;
    this.busy(false);
    progress.end();
    if (told) await this.refresh(told.message_id);
    else if (problem === this.words.stopped) {
      // What was said until then is kept by the server, which tells when it is: see heard().
      this.dataset.stopped = "";
      this.complain(bubble, problem);
    } else {
      // Where the person's message was taken, what follows it goes on from there; else it is theirs to send again.
      const isThere = await this.refresh().catch(() => false);
      const said = [...this.thread.querySelectorAll(".mine:not(.draft) .said")].at(-1);
      if (!isThere || said?.textContent.trim() !== text.trim()) this.giveBack(mine, text, ask);
      this.thread.append(bubble);
      this.complain(bubble, problem || this.words.failed);
    }
    this.text?.focus({ preventScroll: true });
  }

  giveBack(mine, text, ask) {
    mine.remove();
    if (!this.text || this.text.value || ask) return;
    this.text.value = text;
    this.text.dispatchEvent(new Event("input", { bubbles: true }));
  }

  address() {
    return `/${this.dataset.project}/${encodeURIComponent(this.form.elements.endpoint.value)}/v1/chat/completions`;
  }

  headers() {
    return {
      "Content-Type": "application/json",
      "X-CSRF-Token": csrf(),
      "X-Xerotier-Workspace": this.dataset.workspace,
    };
  }

  body(text, parent, ask) {
    const tools = [...this.form.querySelectorAll("[name=tool]:checked:enabled")].map((box) => box.value);
    const deep = Boolean(this.form.elements.deep?.checked);
    return JSON.stringify({
      model: "default",
      stream: true,
      messages: [{ role: "user", content: text }],
      x_chat_id: this.dataset.chat,
      ...(parent !== undefined && { x_parent_message_id: parent }),
      ...(ask && { x_ask_user: ask }),
      ...((tools.length || deep) && { web_search_options: deep ? { x_deep_think: true } : { x_tools: tools } }),
    });
  }

  stop() {
    this.running?.abort();
  }

  // What is shown.

  bubble(kind, text) {
    const message = document.createElement("article");
    message.className = `message ${kind} draft`;
    if (text !== undefined) {
      const said = message.appendChild(document.createElement("div"));
      said.className = "said";
      said.textContent = text;
    }
    return message;
  }

  complain(bubble, text) {
    const line = document.createElement("p");
    line.className = "alert";
    line.setAttribute("role", "alert");
    line.textContent = text;
    bubble.append(line);
    this.toEnd();
  }

  // `yields` where nobody asked for it: what a person began to write while it was on its way is left alone.
  async refresh(at, yields = false) {
    const isNew = "new" in this.dataset;
    const url = at ? `${this.dataset.url}?at=${encodeURIComponent(at)}` : `${this.dataset.url}${location.search}`;
    const answer = await fetch(isNew ? this.dataset.url : url, { headers: isNew ? {} : { "HX-Request": "true" } });
    // Who was signed out meanwhile is led elsewhere, which is no chat.
    if (!answer.ok || answer.redirected) return false;
    const follow = this.isAtEnd();
    const text = await answer.text();
    if (text === this.last || (yields && this.isWrittenIn())) return true;
    this.last = text;
    // The server's own markup, escaped and sanitised there; a parsed document runs nothing.
    const page = new DOMParser().parseFromString(text, "text/html");
    const thread = isNew ? page.getElementById("thread") : page.body;
    this.thread.replaceChildren(...document.adoptNode(thread).childNodes);
    if (isNew) this.becomes(page);
    if (at) history.replaceState(null, "", this.dataset.url);
    window.htmx?.process(this);
    localise(this);
    if (follow) this.toEnd();
    return true;
  }

  // A new chat has its own address, title and menu once something was said in it.
  becomes(page) {
    delete this.dataset.new;
    this.last = undefined;
    document.title = page.title;
    this.querySelector(".room-head").replaceWith(document.adoptNode(page.querySelector(".room-head")));
    this.querySelector("#files")?.replaceWith(document.adoptNode(page.getElementById("files")));
    this.querySelector(".undo")?.remove();
    const here = document.querySelector(".chat-search [name=here]");
    if (here) here.value = this.dataset.chat;
    history.replaceState(null, "", this.dataset.url);
  }

  heard() {
    const wasStopped = "stopped" in this.dataset;
    if (this.running || ("new" in this.dataset && !wasStopped)) return;
    if (this.isWrittenIn() && !wasStopped) return;
    delete this.dataset.stopped;
    this.refresh(undefined, !wasStopped);
  }

  isWrittenIn() {
    return Boolean(this.thread.querySelector("form.edit")) || this.thread.contains(document.activeElement);
  }

  busy(is) {
    this.thread.setAttribute("aria-busy", String(is));
    this.form.querySelector("[data-stop]").classList.toggle("hidden", !is);
    this.form.querySelector("[data-send]").classList.toggle("hidden", is);
    this.form.querySelector(".status").textContent = is ? this.words.thinking : "";
  }

  isAtEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_END;
  }

  toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight + 2, 240)}px`;
  }

  closeMenus(but) {
    for (const menu of this.querySelectorAll("details.menu[open]")) {
      if (menu.contains(but)) continue;
      if (menu.contains(document.activeElement)) menu.querySelector("summary").focus();
      menu.open = false;
    }
  }

  showAside(open = !document.body.classList.contains("aside-open")) {
    document.body.classList.toggle("aside-open", open);
    for (const button of document.querySelectorAll(".room-head [data-aside]")) {
      button.setAttribute("aria-expanded", String(open));
    }
  }

  chose() {
    const off = (this.form.elements.endpoint.selectedOptions[0]?.dataset.off ?? "").split(" ");
    for (const box of this.form.querySelectorAll("[name=tool]")) box.disabled = off.includes(box.value);
    const boxes = [...this.form.querySelectorAll("[name=tool]:checked")];
    localStorage.setItem(CHOSEN, boxes.map((box) => box.value).join(" "));
    const count = boxes.length + (this.form.elements.deep?.checked ? 1 : 0);
    this.form.querySelector(".count").textContent = count ? String(count) : "";
  }

  // Files.

  async attach(files) {
    const api = `/api/workspaces/${this.dataset.workspace}`;
    const status = this.form.querySelector(".status");
    status.textContent = this.words.uploading;
    const headers = { "X-CSRF-Token": csrf() };
    if ("new" in this.dataset) {
      const made = { id: this.dataset.chat, title: files[0].name.slice(0, 200) };
      const json = { ...headers, "Content-Type": "application/json" };
      await fetch(`${api}/chats`, { method: "POST", headers: json, body: JSON.stringify(made) });
    }
    for (const file of files) {
      const form = new FormData();
      form.append("chat_id", this.dataset.chat);
      form.append("file", file);
      const answer = await fetch(`${api}/documents`, { method: "POST", headers, body: form });
      if (!answer.ok) {
        const told = await answer.json().catch(() => null);
        toast(`${file.name} ${this.words.refused}: ${told?.error?.message ?? answer.statusText}`);
      }
    }
    status.textContent = "";
    this.form.querySelector("[type=file]").value = "";
    if ("new" in this.dataset) await this.refresh();
    else window.htmx?.trigger(this.querySelector("#files"), "live");
  }
}

customElements.define("chat-room", ChatRoom);
