// The graph's picture: wheel, drag, plus and minus move about in it; what is pointed at shows what it is tied to.

class GraphView extends HTMLElement {
  connectedCallback() {
    this.svg = this.querySelector("svg");
    const [x, y, width] = this.svg.getAttribute("viewBox").split(" ").map(Number);
    this.box = { x, y, width };
    this.svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15);
    }, { passive: false });
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => (from = event));
    window.addEventListener("pointerup", () => (from = null));
    this.svg.addEventListener("pointermove", (event) => {
      if (!from) return;
      const scale = this.box.width / this.svg.clientWidth;
      this.box.x -= (event.clientX - from.clientX) * scale;
      this.box.y -= (event.clientY - from.clientY) * scale;
      from = event;
      this.show();
    });
    for (const kind of ["pointerover", "focusin"]) this.svg.addEventListener(kind, (event) => this.near(event.target));
    this.tabIndex = 0;
    this.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const step = this.box.width / 10;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (moves[event.key]) {
      this.box.x += moves[event.key][0];
      this.box.y += moves[event.key][1];
    } else if (event.key === "+") this.zoom(1 / 1.2);
    else if (event.key === "-") this.zoom(1.2);
    else return;
    event.preventDefault();
    this.show();
  }

  zoom(by) {
    const width = Math.max(120, this.box.width * by);
    this.box.x += (this.box.width - width) / 2;
    this.box.y += (this.box.width - width) / 2;
    this.box.width = width;
    this.show();
  }

  near(target) {
    const id = target.closest("[data-node]")?.dataset.node;
    for (const line of this.svg.querySelectorAll("line")) {
      line.classList.toggle("near", Boolean(id) && line.dataset.ends.split(" ").includes(id));
    }
  }

  show() {
    this.svg.setAttribute("viewBox", `${this.box.x} ${this.box.y} ${this.box.width} ${this.box.width}`);
  }
}

customElements.define("graph-view", GraphView);
