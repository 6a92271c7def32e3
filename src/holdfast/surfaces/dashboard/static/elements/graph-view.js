// The graph's picture: wheel and drag move about in it, arrows go from node to node, plus and minus zoom.
// What is pointed at, or has the focus, shows what it is tied to.

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const READABLE_WIDTH = 700;

class GraphView extends HTMLElement {
  connectedCallback() {
    this.svg = this.querySelector("svg");
    this.nodes = [...this.svg.querySelectorAll("[data-node]")];
    const [x, y, width] = this.svg.getAttribute("viewBox").split(" ").map(Number);
    this.box = { x, y, width };
    this.lines = new Map(this.nodes.map((node) => [node.dataset.node, []]));
    for (const line of this.svg.querySelectorAll("line")) {
      for (const end of line.dataset.ends.split(" ")) this.lines.get(end)?.push(line);
    }
    this.near = [];
    this.hint();
    this.follow();
    this.show();
  }

  hint() {
    const line = document.createElement("p");
    line.className = "quiet";
    line.textContent = this.dataset.hint;
    this.append(line);
  }

  follow() {
    this.svg.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => (this.held = event));
    this.svg.addEventListener("pointermove", (event) => this.drag(event));
    this.svg.addEventListener("pointerleave", () => (this.held = null));
    this.svg.addEventListener("pointerup", () => (this.held = null));
    for (const kind of ["pointerover", "focusin"]) this.svg.addEventListener(kind, (event) => this.tie(event.target));
    this.addEventListener("keydown", (event) => this.key(event));
  }

  wheel(event) {
    // Without Ctrl the wheel scrolls the page, as people expect of a page.
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    this.zoom(event.deltaY > 0 ? 1.15 : 1 / 1.15);
  }

  drag(event) {
    if (!this.held) return;
    const scale = this.box.width / this.svg.clientWidth;
    this.box.x -= (event.clientX - this.held.clientX) * scale;
    this.box.y -= (event.clientY - this.held.clientY) * scale;
    this.held = event;
    this.show();
  }

  key(event) {
    const here = event.target.closest("[data-node]");
    if (here && DIRECTIONS[event.key]) this.go(here, DIRECTIONS[event.key]);
    else if (event.key === "+") this.zoom(1 / 1.25, here);
    else if (event.key === "-") this.zoom(1.25, here);
    else return;
    event.preventDefault();
  }

  // The nearest node in a direction: what lies straight ahead counts less far than what lies aside.
  go(here, [dx, dy]) {
    const [x, y] = place(here);
    let best = null;
    let least = Infinity;
    for (const node of this.nodes) {
      const [toX, toY] = place(node);
      const ahead = (toX - x) * dx + (toY - y) * dy;
      const aside = Math.abs((toX - x) * dy) + Math.abs((toY - y) * dx);
      if (ahead > 0 && ahead + 2 * aside < least) {
        least = ahead + 2 * aside;
        best = node;
      }
    }
    if (!best) return;
    here.tabIndex = -1;
    best.tabIndex = 0;
    best.focus({ preventScroll: true });
    this.reveal(best);
  }

  reveal(node) {
    const [x, y] = place(node);
    const edge = this.box.width / 10;
    const inside = (at, from) => at > from + edge && at < from + this.box.width - edge;
    if (inside(x, this.box.x) && inside(y, this.box.y)) return;
    this.box.x = x - this.box.width / 2;
    this.box.y = y - this.box.width / 2;
    this.show();
  }

  zoom(by, around = null) {
    const width = Math.max(160, this.box.width * by);
    const [x, y] = around ? place(around) : [this.box.x + this.box.width / 2, this.box.y + this.box.width / 2];
    this.box = { x: x - width / 2, y: y - width / 2, width };
    this.show();
  }

  tie(target) {
    const id = target.closest("[data-node]")?.dataset.node;
    for (const line of this.near) line.classList.remove("near");
    this.near = this.lines.get(id) ?? [];
    for (const line of this.near) line.classList.add("near");
  }

  show() {
    const { x, y, width } = this.box;
    this.svg.setAttribute("viewBox", `${x} ${y} ${width} ${width}`);
    this.svg.classList.toggle("closer", width < READABLE_WIDTH);
  }
}

function place(node) {
  return [Number(node.dataset.x), Number(node.dataset.y)];
}

customElements.define("graph-view", GraphView);
