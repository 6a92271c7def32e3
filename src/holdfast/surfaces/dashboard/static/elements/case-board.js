// A board whose cards are moved by drag, by a finger that rests on one first, and by Shift with an arrow, besides their
// buttons. Each way sends the card's own form: where it may go, and whether a reason is needed, is the server's to say.
const HOLD_MILLIS = 300;
const SLIP_PIXELS = 10;
const EDGE_PIXELS = 40;
const SCROLL_PIXELS = 12;

class CaseBoard extends HTMLElement {
  connectedCallback() {
    this.addEventListener("dragstart", (event) => this.take(event));
    this.addEventListener("dragend", () => this.let());
    this.addEventListener("dragover", (event) => this.over(event));
    this.addEventListener("drop", (event) => this.drop(event));
    this.addEventListener("keydown", (event) => this.step(event));
    this.addEventListener("touchstart", (event) => this.press(event), { passive: true });
    this.addEventListener("touchmove", (event) => this.pull(event), { passive: false });
    this.addEventListener("touchend", (event) => this.lift(event));
    this.addEventListener("touchcancel", () => this.let());
    this.addEventListener("contextmenu", (event) => this.finger && event.preventDefault());
  }

  take(event) {
    // Some browsers begin a drag of their own under a finger that rests.
    if (this.finger) event.preventDefault();
    this.card = this.finger ? this.card : event.target.closest("li[data-moves]");
    if (!this.card || this.finger) return;
    event.dataTransfer.effectAllowed = "move";
    event.dataTransfer.setData("text/plain", this.card.id);
    this.show(this.card);
  }

  show(card) {
    const legal = card.dataset.moves.split(" ");
    for (const lane of this.lanes()) lane.classList.toggle("may", legal.includes(lane.dataset.state));
  }

  press(event) {
    this.let();
    const card = event.target.closest("li[data-moves]");
    if (!card || event.touches.length > 1 || event.target.closest("button, input")) return;
    this.finger = event.touches[0];
    this.timer = setTimeout(() => {
      this.card = card;
      card.classList.add("held");
      this.show(card);
    }, HOLD_MILLIS);
  }

  pull(event) {
    const touch = event.touches[0];
    if (!this.card) {
      // Whoever moves at once wants to scroll.
      const far = (at) => this.finger && Math.abs(touch[at] - this.finger[at]) > SLIP_PIXELS;
      if (far("clientX") || far("clientY")) this.let();
      return;
    }
    event.preventDefault();
    const here = this.under(touch);
    for (const lane of this.lanes()) lane.classList.toggle("over", lane === here);
    const way = (at, size) => (at < EDGE_PIXELS ? -1 : at > size - EDGE_PIXELS ? 1 : 0) * SCROLL_PIXELS;
    here?.parentElement.scrollBy(way(touch.clientX, window.innerWidth), 0);
    window.scrollBy(0, way(touch.clientY, window.innerHeight));
  }

  lift(event) {
    const { card } = this;
    const lane = card && this.under(event.changedTouches[0]);
    // A card that was held is not also clicked.
    if (card) event.preventDefault();
    this.let();
    if (lane && !lane.contains(card)) this.move(card, lane.dataset.state);
  }

  under(touch) {
    return document.elementFromPoint(touch.clientX, touch.clientY)?.closest(".lane") ?? null;
  }

  let() {
    clearTimeout(this.timer);
    this.card?.classList.remove("held");
    this.finger = null;
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
