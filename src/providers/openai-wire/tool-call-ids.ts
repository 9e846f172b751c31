import type { ToolCall } from '../../core/contracts/index.ts';

const accepted = /^[A-Za-z0-9_-]+$/;

/** LiteLLM appends Gemini's thought signature to the id after this separator, and needs it back unchanged. */
const signature = '__thought__';

/**
 * The ids of one request's calls, as every vendor's server accepts them: only `[A-Za-z0-9_-]`, and none twice. Messages
 * are mapped in their order, so a longer history gives the earlier calls the same ids again and prompt caches still hit.
 */
export class ToolCallIds {
  readonly #used = new Set<string>();
  readonly #open = new Map<string, string[]>();
  readonly #answered = new Map<string, string>();

  /** The ids of an assistant message's calls. */
  ofCalls(calls: readonly ToolCall[]): readonly string[] {
    this.#open.clear();
    return calls.map(({ id }) => {
      const wireId = this.#unused(plain(id));
      const open = this.#open.get(id);
      if (open === undefined) this.#open.set(id, [wireId]);
      else open.push(wireId);
      return wireId;
    });
  }

  /** The id that the result of call `id` refers to: the first call of that id, in the message before, without a result. */
  ofResult(id: string): string {
    const wireId = this.#open.get(id)?.shift() ?? this.#answered.get(id) ?? plain(id);
    this.#answered.set(id, wireId);
    return wireId;
  }

  #unused(id: string): string {
    let free = id;
    for (let n = 2; this.#used.has(free); n++) free = `${id}_${n}`;
    this.#used.add(free);
    return free;
  }
}

function plain(id: string): string {
  if (accepted.test(id) || id.includes(signature)) return id;
  return id === '' ? 'call' : id.replace(/[^A-Za-z0-9_-]/g, '_');
}
