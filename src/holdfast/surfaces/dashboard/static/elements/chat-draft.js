// Markdown while it is written: nodes are made one by one and only the last block is made anew, so nothing of a model's
// words is ever markup, and a long answer costs no more a word than a short one. The server renders the finished answer.

const SAFE = /^(?:https?:\/\/|mailto:)/i;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^\n]*)\n/m;
const ITEM = /^( *)(?:([-*+])|(\d{1,9})[.)]) +(.*)$/;
const INLINE =
  /(`+)([^`]+)\1|\*\*([^*]+)\*\*|~~([^~]+)~~|\*([^*\s][^*]*)\*|(?<!\w)_([^_\s][^_]*)_(?!\w)|\[([^\]]+)\]\(([^\s()]+)\)|<(https?:\/\/[^<>\s]+)>|\\([!-/:-@[-`{-~])/g;
const LONGEST = 4000;

function make(name, ...children) {
  const node = document.createElement(name);
  node.append(...children);
  return node;
}

function link(label, address) {
  if (!SAFE.test(address)) return label;
  const node = make("a", label);
  node.href = address;
  node.rel = "noopener noreferrer nofollow";
  node.target = "_blank";
  return node;
}

export function inline(text, into) {
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, , code, strong, cut, soft, under, label, address, plain, escaped] = found;
    into.append(text.slice(at, found.index));
    at = found.index + whole.length;
    if (code !== undefined) into.append(make("code", code));
    else if (strong !== undefined) into.append(inline(strong, make("strong")));
    else if (cut !== undefined) into.append(inline(cut, make("s")));
    else if (soft !== undefined || under !== undefined) into.append(inline(soft ?? under, make("em")));
    else if (label !== undefined) into.append(link(label, address));
    else if (plain !== undefined) into.append(link(plain, plain));
    else into.append(escaped);
  }
  into.append(text.slice(at));
  return into;
}

function list(lines) {
  const [, , , first] = ITEM.exec(lines[0]);
  const root = make(first === undefined ? "ul" : "ol");
  if (first !== undefined && first !== "1") root.start = Number(first);
  const open = [{ indent: 0, list: root }];
  for (const line of lines) {
    const found = ITEM.exec(line);
    const here = open.at(-1);
    if (!found) {
      inline(` ${line.trim()}`, here.list.lastElementChild ?? here.list.appendChild(make("li")));
      continue;
    }
    const [, spaces, , number, text] = found;
    while (open.length > 1 && spaces.length < open.at(-1).indent) open.pop();
    if (spaces.length >= open.at(-1).indent + 2 && open.at(-1).list.lastElementChild && open.length < 9) {
      const inner = make(number === undefined ? "ul" : "ol");
      open.at(-1).list.lastElementChild.append(inner);
      open.push({ indent: spaces.length, list: inner });
    }
    open.at(-1).list.append(inline(text, make("li")));
  }
  return root;
}

function table(lines) {
  const cells = (line) => line.trim().replace(/^\||\|$/g, "").split("|");
  const row = (line, kind) => make("tr", ...cells(line).map((cell) => inline(cell.trim(), make(kind))));
  return make("table", make("thead", row(lines[0], "th")), make("tbody", ...lines.slice(2).map((line) => row(line, "td"))));
}

function* blocks(text) {
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; ) {
    const line = lines[at];
    const heading = /^(#{1,6}) +(.*)$/.exec(line);
    let end = at + 1;
    const run = (fits) => {
      while (end < lines.length && fits(lines[end])) end += 1;
      return lines.slice(at, end);
    };
    if (!line.trim()) {
      // Nothing stands here.
    } else if (heading) yield inline(heading[2], make(`h${heading[1].length}`));
    else if (/^ {0,3}([-*_])( *\1){2,} *$/.test(line)) yield make("hr");
    else if (line.startsWith(">")) {
      const quoted = run((next) => next.startsWith(">")).map((each) => each.replace(/^> ?/, ""));
      yield make("blockquote", ...blocks(quoted.join("\n")));
    } else if (ITEM.test(line)) yield list(run((next) => ITEM.test(next) || /^ {2,}\S/.test(next)));
    else if (line.includes("|") && /^[\s|:-]+$/.test(lines[at + 1] ?? "") && lines[at + 1].includes("-"))
      yield table(run((next) => next.includes("|")));
    else {
      const words = run((next) => next.trim() && !/^(#{1,6} |>|\||```)/.test(next) && !ITEM.test(next));
      yield inline(words.join("\n"), make("p"));
    }
    at = end;
  }
}

export class Draft {
  constructor(root) {
    this.root = root;
    this.live = make("div");
    this.root.append(this.live);
    this.tail = "";
    this.fence = null;
  }

  append(text) {
    this.tail += text;
    while (this.fence ? this.inCode() : this.inWords());
    if (!this.fence) this.live.replaceChildren(...blocks(this.tail));
  }

  // Commits what is over by now; true when more may be.
  inWords() {
    const fence = FENCE.exec(this.tail);
    const gap = this.tail.search(/\n[ \t]*\n/);
    if (fence && (gap < 0 || fence.index <= gap + 1)) {
      this.commit(this.tail.slice(0, fence.index));
      this.tail = this.tail.slice(fence.index + fence[0].length);
      const words = document.createTextNode("");
      this.fence = { mark: fence[1], words };
      const code = make("pre", make("code", words));
      code.tabIndex = 0;
      this.live.before(code);
      return true;
    }
    if (gap >= 0) {
      this.commit(this.tail.slice(0, gap));
      this.tail = this.tail.slice(gap).replace(/^\n[ \t]*\n/, "");
      return true;
    }
    if (this.tail.length > LONGEST) {
      const at = Math.max(this.tail.lastIndexOf("\n"), this.tail.lastIndexOf(" ")) + 1 || this.tail.length;
      this.commit(this.tail.slice(0, at));
      this.tail = this.tail.slice(at);
    }
    return false;
  }

  inCode() {
    const { mark, words } = this.fence;
    const end = this.tail.indexOf("\n");
    const line = end < 0 ? this.tail : this.tail.slice(0, end + 1);
    if (line.trimStart().startsWith(mark)) {
      if (end < 0) return false;
      this.tail = this.tail.slice(end + 1);
      this.fence = null;
      return true;
    }
    // What may become the end of the code waits for the rest of its line.
    if (!line || (end < 0 && mark.startsWith(line.trim().slice(0, mark.length)))) return false;
    words.appendData(line);
    this.tail = this.tail.slice(line.length);
    return Boolean(this.tail);
  }

  commit(text) {
    this.live.before(...blocks(text));
    this.live.replaceChildren();
  }
}
