import { createHash } from 'node:crypto';
import type { ToolCall } from '../core/contracts/index.ts';

/** An id that the core gave to a call whose own id was missing or in use: `<iteration>:<index>`. No server knows it. */
const ofCore = /^\d+:\d+(\.\d+)?$/;

/**
 * The ids of one request's calls. One that this server gave stays as it came; any other that the server may not take becomes nine
 * letters and digits, which every vendor takes. None occurs twice. The same history gives the same ids again, so prompt caches still hit.
 */
export class CallIds {
  readonly #taken: RegExp;
  readonly #used = new Set<string>();
  readonly #open = new Map<string, string[]>();
  readonly #answered = new Map<string, string>();
  /** How many ids were made of each. */
  readonly #attempts = new Map<string, number>();

  /** `taken`: ids of other servers that this one takes. */
  constructor(taken: RegExp) {
    this.#taken = taken;
  }

  /** The ids of an assistant message's calls. `own`: this server gave the message. */
  ofCalls(calls: readonly ToolCall[], own: boolean): readonly string[] {
    this.#open.clear();
    return calls.map(({ id }) => {
      const isPlain = id !== '' && id.isWellFormed() && !ofCore.test(id);
      const fits = isPlain && !this.#used.has(id) && (own || this.#taken.test(id));
      const sent = fits ? id : this.#made(id);
      this.#used.add(sent);
      const open = this.#open.get(id);
      if (open === undefined) this.#open.set(id, [sent]);
      else open.push(sent);
      return sent;
    });
  }

  /** The id that the result of call `id` refers to: the first call of that id, in the message before, without a result. */
  ofResult(id: string): string {
    const sent = this.#open.get(id)?.shift() ?? this.#answered.get(id) ?? this.#made(id);
    this.#answered.set(id, sent);
    return sent;
  }

  #made(id: string): string {
    for (let attempt = this.#attempts.get(id) ?? 0; ; attempt++) {
      const made = nineLetters(`${id} ${attempt}`);
      if (this.#used.has(made)) continue;
      this.#attempts.set(id, attempt);
      return made;
    }
  }
}

const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789';

function nineLetters(text: string): string {
  const digest = createHash('sha256').update(text.toWellFormed()).digest();
  return Array.from(digest.subarray(0, 9), (byte) => letters[byte % letters.length]).join('');
}

/** The most letters of a name that every vendor takes. */
const longest = 64;

/** Packages of vendors look names up in plain objects, where they would find a method instead. */
const inherited: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype));

/**
 * The names of one request's tools and calls, as the server takes them, and back. A name that a model made up never becomes that of a
 * tool that is offered; two names never become one.
 */
export class CallNames {
  readonly #taken: RegExp;
  readonly #sent = new Map<string, string>();
  readonly #used = new Set<string>();
  /** How many names were made of each. */
  readonly #counts = new Map<string, number>();
  /** Of the tools that are offered under another name. */
  readonly #renamed = new Map<string, string>();

  /** `offered`: the names of the request's tools. */
  constructor(taken: RegExp, offered: readonly string[]) {
    this.#taken = taken;
    for (const name of offered) if (this.#takes(name)) this.#note(name, name);
    for (const name of offered) if (!this.#takes(name)) this.#renamed.set(this.sent(name), name);
  }

  sent(name: string): string {
    const known = this.#sent.get(name);
    if (known !== undefined) return known;
    return this.#note(name, this.#takes(name) && !this.#used.has(name) ? name : this.#made(name));
  }

  /** The name of a call in the answer, as the engine knows it: that of the tool that was offered under it. */
  original(sent: string): string {
    return this.#renamed.get(sent) ?? sent;
  }

  #takes(name: string): boolean {
    return this.#taken.test(name) && !inherited.has(name);
  }

  #note(name: string, sent: string): string {
    this.#sent.set(name, sent);
    this.#used.add(sent);
    return sent;
  }

  #made(name: string): string {
    const plain = name.replaceAll(/[^a-zA-Z0-9_-]+/g, '_').replace(/^(?![a-zA-Z_])/, '_');
    const base = /[a-zA-Z0-9]/.test(plain) ? plain.slice(0, longest) : 'unnamed_tool';
    for (let count = this.#counts.get(base) ?? 1; ; count++) {
      const suffix = count === 1 ? '' : `_${count}`;
      const made = base.slice(0, longest - suffix.length) + suffix;
      if (this.#used.has(made) || inherited.has(made)) continue;
      this.#counts.set(base, count);
      return made;
    }
  }
}
