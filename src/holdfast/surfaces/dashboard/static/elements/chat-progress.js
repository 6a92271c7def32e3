// What happens beside an answer while it is made: a line for every tool, and how far a research is.

export class Progress {
  constructor(bubble, words) {
    this.words = words;
    this.list = document.createElement("ul");
    this.list.className = "running";
    this.list.setAttribute("aria-live", "polite");
    bubble.append(this.list);
    this.waiting = [];
    this.think = null;
  }

  tell(event) {
    const [noun, what] = event.type.split(".");
    if (noun === "x_deep_think") this.deep(what, event);
    else if (event.type === "x_research.result") this.done(event.name);
    else if (event.type === "x_research.complete" || noun === "x_ask_user") this.speaks();
    else if (noun === "x_artifact") this.line(this.words.artifact, event.title ?? event.identifier, "good");
    else this.waiting.push({ name: event.name, line: this.line(this.label(event.name), summary(event), "busy") });
  }

  label(name) {
    return this.words.labels[name] ?? name ?? this.words.tool;
  }

  line(label, text, kind) {
    const line = document.createElement("li");
    line.className = kind;
    const name = document.createElement("strong");
    name.textContent = label;
    line.append(name, " ", text ?? "");
    this.list.append(line);
    return line;
  }

  done(name) {
    const at = this.waiting.findIndex((each) => each.name === name);
    if (at >= 0) this.waiting.splice(at, 1)[0].line.className = "good";
  }

  // The model goes on with words, so whatever it waited for is over.
  speaks() {
    for (const each of this.waiting) each.line.className = "good";
    this.waiting = [];
  }

  deep(what, event) {
    if (!this.think) {
      this.think = document.createElement("progress");
      this.think.setAttribute("aria-label", this.words.plan);
      this.list.before(this.think);
    }
    if (what === "plan_created") {
      this.think.max = event.total_subtasks + 1;
      this.think.value = 0;
      this.line(this.words.plan, event.title, "good");
    } else if (what === "subtask_started") this.step = this.line(`${event.subtask_index + 1}/${event.total_subtasks}`, event.subtask_query, "busy");
    else if (what === "subtask_completed") {
      this.think.value += 1;
      if (this.step) this.step.className = "good";
    } else if (what === "completed") this.think.remove();
    else if (event.message) this.line("·", event.message, what === "error" ? "bad" : "busy");
  }

  end() {
    this.speaks();
    for (const line of this.list.querySelectorAll(".busy")) line.className = "good";
    this.think?.remove();
  }
}

function summary(event) {
  let given = event.arguments ?? event;
  try {
    if (typeof given === "string") given = JSON.parse(given);
  } catch {
    return "";
  }
  const told = given.query ?? given.expression ?? given.url ?? given.urls ?? given.content ?? given.title ?? "";
  return [told].flat().join(", ").slice(0, 160);
}
