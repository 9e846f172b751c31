/** Receives the answer in pieces, without the tags. */
export interface TagSink {
  text(piece: string): void;
  reasoning(piece: string): void;
}

/**
 * Splits the reasoning from an answer that starts with it in a tag, such as `<think>…</think>`. The tag counts at the start only, after
 * whitespace: an answer may contain tags. It may be cut anywhere; one that is never closed is reasoning to the end. Buffers at most a tag's length.
 */
export class ReasoningTags {
  readonly #tag: string;
  readonly #sink: TagSink;
  #state: 'start' | 'inside' | 'behind' | 'text' = 'start';
  #held = '';

  constructor(tag: string, sink: TagSink) {
    this.#tag = tag;
    this.#sink = sink;
  }

  /** The server says that what follows is reasoning: its tag counts wherever it stands. */
  begin(): void {
    if (this.#state === 'inside') return;
    this.#flush();
    this.#state = 'start';
  }

  add(piece: string): void {
    this.#held += piece;
    while (this.#step()) {}
  }

  /** Nothing more comes. */
  end(): void {
    this.#flush();
  }

  /** Whether there may be more to do with what is held. */
  #step(): boolean {
    switch (this.#state) {
      case 'start':
        return this.#stepStart();
      case 'inside':
        return this.#stepInside();
      case 'behind':
        return this.#stepBehind();
      case 'text':
        this.#flush();
        return false;
    }
  }

  #stepStart(): boolean {
    const open = `<${this.#tag}>`;
    const text = this.#held.trimStart();
    if (text.startsWith(open)) {
      this.#held = text.slice(open.length);
      this.#state = 'inside';
      return true;
    }
    if (open.startsWith(text)) return false;
    this.#state = 'text';
    return true;
  }

  #stepInside(): boolean {
    const close = `</${this.#tag}>`;
    const at = this.#held.indexOf(close);
    if (at >= 0) {
      this.#reason(this.#held.slice(0, at));
      this.#held = this.#held.slice(at + close.length);
      this.#state = 'behind';
      return true;
    }
    let kept = Math.min(close.length - 1, this.#held.length);
    while (kept > 0 && !close.startsWith(this.#held.slice(-kept))) kept--;
    this.#reason(this.#held.slice(0, this.#held.length - kept));
    this.#held = kept === 0 ? '' : this.#held.slice(-kept);
    return false;
  }

  /** The blank lines between the reasoning and the answer belong to neither. */
  #stepBehind(): boolean {
    this.#held = this.#held.trimStart();
    if (this.#held === '') return false;
    this.#state = 'text';
    return true;
  }

  #reason(piece: string): void {
    if (piece !== '') this.#sink.reasoning(piece);
  }

  #flush(): void {
    const held = this.#held;
    this.#held = '';
    if (held === '') return;
    if (this.#state === 'inside') this.#sink.reasoning(held);
    else if (this.#state !== 'behind' || held.trim() !== '') this.#sink.text(held);
  }
}
