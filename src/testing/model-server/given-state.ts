import { createHmac, randomBytes } from 'node:crypto';
import { familyOf } from '../../providers/model-origin.ts';
import type { ModelAnswer } from './model-answer.ts';

/**
 * What one strict server gave for itself and wants back: seals, which hold for their model family and for what they were made of, and the
 * answers with calls. Another server has another secret, so its seals are not valid here. Memory grows with the answers.
 */
export class GivenState {
  readonly #secret = randomBytes(32);
  readonly #answers = new Map<string, ModelAnswer>();
  readonly #reasoning = new Set<string>();
  readonly #items = new Map<string, object>();

  /** A signature, or encrypted content, of what it was made of. */
  seal(model: string, ...what: readonly string[]): string {
    const sealed = JSON.stringify([familyOf(model), ...what]);
    return createHmac('sha256', this.#secret).update(sealed).digest('base64');
  }

  isSealOf(seal: unknown, model: string, ...what: readonly string[]): boolean {
    return seal === this.seal(model, ...what);
  }

  note(answer: ModelAnswer): void {
    for (const { id } of answer.calls) this.#answers.set(id, answer);
    if (answer.reasoning !== '') this.#reasoning.add(answer.reasoning);
  }

  /** The answer that gave the call of that id. */
  answerWith(callId: string): ModelAnswer | undefined {
    return this.#answers.get(callId);
  }

  gaveReasoning(text: unknown): boolean {
    return typeof text === 'string' && this.#reasoning.has(text);
  }

  /** Stores an item of an answer, which later requests may refer to. */
  store(id: string, item: object): void {
    this.#items.set(id, item);
  }

  stored(id: unknown): object | undefined {
    return typeof id === 'string' ? this.#items.get(id) : undefined;
  }
}
