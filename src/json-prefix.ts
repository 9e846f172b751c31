import { GrowingText } from './core/journal/index.ts';

const opening: Readonly<Record<string, string>> = { '{': '}', '[': ']' };

/** The syntactic positions that the next character can belong to. */
type Within = 'structure' | 'string' | 'escape' | 'word';

/**
 * A growing JSON text, and how to close it: after each character it knows up to where the text is whole values, and which
 * brackets are open. One pass, linear, for any fragments.
 */
export class JsonPrefix {
  readonly #text = new GrowingText();
  #within: Within = 'structure';
  /** The missing closing brackets, the outermost first. */
  readonly #open: string[] = [];
  /** Whether the next string of the innermost object is a name. */
  #nameNext = false;
  #inName = false;
  /** The digits of an incomplete `\u` escape. */
  #digits: string | undefined;
  #wholeTo = 0;
  /** Whether the text is whole up to a position within a string. */
  #wholeInString = false;
  #complete = false;

  /** Whether the outermost bracket is closed. */
  get complete(): boolean {
    return this.#complete;
  }

  push(fragment: string): void {
    const from = this.#text.length;
    this.#text.add(fragment);
    for (let index = 0; index < fragment.length && !this.#complete; index++) {
      this.#take(fragment[index] ?? '', from + index);
    }
  }

  /** The text up to its last whole value or character, with all brackets closed. `undefined` if there is none. */
  closed(): string | undefined {
    if (this.#wholeTo === 0) return undefined;
    const quote = this.#wholeInString ? '"' : '';
    return this.#text.slice(0, this.#wholeTo) + quote + this.#open.toReversed().join('');
  }

  #take(character: string, index: number): void {
    if (this.#within === 'escape') this.#takeEscape(character, index);
    else if (this.#within === 'string') this.#takeString(character, index);
    else this.#takeStructure(character, index);
  }

  #takeStructure(character: string, index: number): void {
    const ends = ' \n\r\t,]}'.includes(character);
    if (this.#within === 'word' && ends) {
      this.#within = 'structure';
      this.#isWhole(index);
    }
    if (character === '"') this.#openString(index);
    else if (character === ',') this.#nameNext = this.#open.at(-1) === '}';
    else if (character === ':') this.#nameNext = false;
    else if (character in opening) this.#openBracket(character, index);
    else if (character === ']' || character === '}') this.#closeBracket(index);
    else if (!ends) this.#within = 'word';
  }

  #openBracket(character: string, index: number): void {
    this.#open.push(opening[character] ?? '');
    this.#nameNext = character === '{';
    this.#isWhole(index + 1);
  }

  #closeBracket(index: number): void {
    this.#open.pop();
    this.#nameNext = false;
    this.#isWhole(index + 1);
    this.#complete = this.#open.length === 0;
  }

  #openString(index: number): void {
    this.#within = 'string';
    this.#inName = this.#nameNext;
    this.#stringIsWhole(index + 1);
  }

  #takeString(character: string, index: number): void {
    if (character === '\\') {
      this.#within = 'escape';
    } else if (character !== '"') {
      if (!isHighSurrogate(character.charCodeAt(0))) this.#stringIsWhole(index + 1);
    } else {
      this.#within = 'structure';
      if (!this.#inName) this.#isWhole(index + 1);
    }
  }

  #takeEscape(character: string, index: number): void {
    if (this.#digits === undefined && character === 'u') {
      this.#digits = '';
      return;
    }
    const digits = this.#digits === undefined ? undefined : this.#digits + character;
    this.#digits = digits;
    if (digits !== undefined && digits.length < 4) return;
    this.#digits = undefined;
    this.#within = 'string';
    if (digits === undefined || !isHighSurrogate(Number.parseInt(digits, 16))) this.#stringIsWhole(index + 1);
  }

  #isWhole(to: number): void {
    this.#wholeTo = to;
    this.#wholeInString = false;
  }

  #stringIsWhole(to: number): void {
    if (this.#inName) return;
    this.#wholeTo = to;
    this.#wholeInString = true;
  }
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/**
 * Whether a growing text is JSON: an object, an array, or a short value. Each character is looked at once, and the text parsed once,
 * at its last bracket, however often one asks.
 */
export class JsonText {
  readonly #prefix = new JsonPrefix();
  #text = '';
  #unread = '';
  /** The first and the last character that is not blank; '' for none. */
  #first = '';
  #last = '';
  /** Known once the outermost bracket is closed. */
  #isJson: boolean | undefined;

  get text(): string {
    return this.#text;
  }

  /** Whether the text is empty or blank. */
  get isBlank(): boolean {
    return this.#first === '';
  }

  push(fragment: string): void {
    this.#text += fragment;
    this.#unread += fragment;
    const seen = fragment.trim();
    if (seen === '') return;
    this.#first ||= seen.charAt(0);
    this.#last = seen.charAt(seen.length - 1);
  }

  isJson(): boolean {
    if (this.#isJson === undefined && this.#isOpen()) return false;
    if (this.#text.length <= longestPlainValue) return isJson(this.#text);
    if (this.#isJson === undefined) {
      this.#prefix.push(this.#unread);
      if (this.#prefix.complete) this.#isJson = isJson(this.#text);
    } else if (this.#unread.trim() !== '') this.#isJson = false;
    this.#unread = '';
    return this.#isJson ?? false;
  }

  /** Whether it begins with a bracket, or is too long for anything else, and does not end with one. */
  #isOpen(): boolean {
    if (this.#last === '}' || this.#last === ']') return false;
    return this.#text.length > longestPlainValue || this.#first in opening;
  }
}

/** Texts up to this length are parsed as a whole: numbers and words have no closing bracket. */
const longestPlainValue = 32;

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
