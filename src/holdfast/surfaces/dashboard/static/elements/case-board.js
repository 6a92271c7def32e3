// A board whose cards are moved by drag and by Shift with an arrow, besides their buttons. Each way sends the card's own
// form: where it may go, and whether a reason is needed, is the server's to say.
class CaseBoard extends HTMLElement {
  connectedCallback() {
    this.addEventListener("dragstart", (event) => this.take(event));
    this.addEventListener("dragend", () => this.let());
    this.addEventListener("dragover", (event) => this.over(event));
    this.addEventListener("drop", (event) => this.drop(event));
    this.addEventListener("keydown", (event) => this.step(event));
  }

  take(event) {
    this.card = event.target.closest("li[data-moves]");
    if (!this.card) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", this.card.id);
    const legal = this.card.dataset.moves.split(" ");
    for (const lane of this.lanes()) lane.classList.toggle("may", legal.includes(lane.dataset.state));
  }

  let() {
    this.card = null;
    for (const lane of this.lanes()) lane.classList.remove("may", "over");
  }

  over(event) {
    const here = event.target.closest(".lane");
    for (const lane of this.lanes()) lane.classList.toggle("over", Boolean(this.card) && lane === here);
    if (this.card && here) event.preventDefault();
  }

  drop(event) {
    const lane = event.target.closest(".lane");
    if (!this.card || !lane) return;
    event.preventDefault();
    if (!lane.contains(this.card)) this.move(this.card, lane.dataset.state);
  }

  step(event) {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const card = event.target.closest("li[data-moves]");
    if (!way || !event.shiftKey || !card) return;
    event.preventDefault();
    const states = this.lanes().map((lane) => lane.dataset.state);
    const legal = card.dataset.moves.split(" ");
    let at = states.indexOf(card.closest(".lane").dataset.state) + way;
    // The nearest column that it may go to; without one the next, and the server says why not.
    const next = states[at];
    while (at in states && !legal.includes(states[at])) at += way;
    if (states[at] ?? next) this.move(card, states[at] ?? next);
  }

  move(card, state) {
    const form = card.querySelector("form");
    const chosen = document.createElement("input");
    chosen.type = "hidden";
    chosen.name = "state";
    chosen.value = state;
    form.append(chosen);
    form.requestSubmit();
  }

  lanes() {
    return [...this.querySelectorAll(".lane")];
  }
}

customElements.define("case-board", CaseBoard);
