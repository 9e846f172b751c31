import type { AgentEvent, Usage } from '../../core/contracts/index.ts';
import type { Encoder } from '../event-stream.ts';
import type { ShownEnd, ShownStep } from '../shown-steps.ts';
import { type Shown, type StreamOptions, shownOf } from '../stream-options.ts';
import { TurnReader } from '../turn-reader.ts';
import { chatUsage, SentText, type WireError, wireErrorOf } from './wire.ts';

/** The options of an answer of chat completions. */
export interface CompletionOptions extends StreamOptions {
  /** The id of the agent. */
  readonly model: string;
  readonly id: string;
  /** Seconds. */
  readonly created: number;
  /** Whether the chunks are sent one by one: what was sent cannot be taken back then. */
  readonly isStreamed: boolean;
  /** Whether usage follows in a chunk of its own; it is null in all others then. Default false. */
  readonly includeUsage?: boolean | undefined;
  /** What the completion repeats of its request. Default: none. */
  readonly metadata?: unknown;
}

export type ChunkOfCompletion = Readonly<Record<string, unknown>>;

/** How an answer ended. */
interface CompletionEnd {
  readonly finish?: 'stop' | 'length' | 'content_filter';
  readonly error?: WireError;
  readonly usage?: Usage | undefined;
}

/** Writes a turn as chunks of one chat completion: its text, all iterations of it, and its reasoning where that is shown. Tools stay with the agent. */
export class CompletionEncoder implements Encoder<ChunkOfCompletion> {
  readonly #options: CompletionOptions;
  readonly #shown: Shown;
  readonly #reader: TurnReader;
  readonly #texts: SentText[] = [];
  readonly #reasoning: SentText[] = [];
  #end: CompletionEnd | undefined;

  constructor(options: CompletionOptions) {
    this.#options = options;
    this.#shown = shownOf(options);
    this.#reader = new TurnReader(this.#shown);
  }

  encode(event: AgentEvent): readonly ChunkOfCompletion[] {
    return this.#reader.read(event).flatMap((step) => this.#chunks(step));
  }

  lost(error: unknown): readonly ChunkOfCompletion[] {
    return this.#reader.lost(error).flatMap((step) => this.#chunks(step));
  }

  /** The whole answer, once the turn is over; an error where there is none. */
  get whole(): { readonly completion?: ChunkOfCompletion; readonly error?: WireError } {
    const { finish = 'stop', error, usage } = this.#end ?? { error: wireErrorOf('INTERNAL', this.#shown.errorText) };
    if (error) return { error };
    const reasoning = joined(this.#reasoning);
    const message = {
      role: 'assistant',
      content: joined(this.#texts),
      refusal: null,
      ...(reasoning === '' ? {} : { reasoning_content: reasoning }),
    };
    const choices = [{ index: 0, message, logprobs: null, finish_reason: finish }];
    const { metadata } = this.#options;
    const head = { ...this.#head('chat.completion'), ...(metadata === undefined ? {} : { metadata }) };
    return { completion: { ...head, choices, usage: chatUsage(usage) } };
  }

  #chunks(step: ShownStep): readonly ChunkOfCompletion[] {
    if (this.#end) return [];
    switch (step.type) {
      case 'begin':
        return [this.#delta({ role: 'assistant', content: '' })];
      case 'iteration':
        this.#texts.push(new SentText(this.#options.isStreamed));
        this.#reasoning.push(new SentText(this.#options.isStreamed));
        return [];
      case 'text':
        return this.#text(step.text);
      case 'reasoning':
        return this.#reason(step.text);
      case 'artifact':
        return step.recorded && step.data !== undefined ? this.#text(JSON.stringify(step.data)) : [];
      case 'void':
        if (step.texts.length === 0) return [];
        this.#texts.at(-1)?.restart();
        this.#reasoning.at(-1)?.restart();
        return step.standing.flatMap((each) => this.#chunks(each));
      case 'iteration-end':
        return this.#texts.at(-1)?.stands === false ? this.#finished({ error: this.#changed() }) : [];
      case 'end':
        return this.#finished(this.#endOf(step));
      default:
        return [];
    }
  }

  #text(text: string): readonly ChunkOfCompletion[] {
    const last = this.#texts.at(-1);
    if (!last) return [];
    const isFirst = last.isUnsent && this.#texts.some((each) => each !== last && each.text !== '');
    const content = last.add(text);
    if (content === undefined) return this.#finished({ error: this.#changed() });
    return content === '' ? [] : [this.#delta({ content: isFirst ? `${between}${content}` : content })];
  }

  /** Reasoning that changes is shown as it was. */
  #reason(text: string): readonly ChunkOfCompletion[] {
    const content = this.#reasoning.at(-1)?.add(text) ?? '';
    return content === '' ? [] : [this.#delta({ reasoning_content: content })];
  }

  #finished(end: CompletionEnd): readonly ChunkOfCompletion[] {
    this.#end = end;
    if (end.error) {
      // The AI SDK repeats a request whose stream failed before it had any output.
      const isUnsent = this.#texts.every((each) => each.isUnsent);
      return [...(isUnsent ? [this.#delta({ refusal: end.error.message })] : []), { error: end.error }];
    }
    const usage = { ...this.#head('chat.completion.chunk'), choices: [], usage: chatUsage(end.usage) };
    return [this.#delta({}, end.finish), ...(this.#options.includeUsage ? [usage] : [])];
  }

  #endOf({ state, code, usage, questions }: ShownEnd): CompletionEnd {
    if (code === 'LENGTH') return { finish: 'length', usage };
    if (code === 'CONTENT_FILTER') return { finish: 'content_filter', usage };
    const [question] = questions;
    if (question) return { error: asked(question.kind) };
    if (state !== 'completed')
      return { error: wireErrorOf(code ?? (state === 'canceled' ? 'CANCELED' : 'INTERNAL'), this.#shown.errorText) };
    return { finish: 'stop', usage };
  }

  /** The model was asked again, and says something else than what was sent. */
  #changed(): WireError {
    return wireErrorOf('PROVIDER_STREAM_CLOSED', this.#shown.errorText);
  }

  #delta(delta: object, finish: string | null = null): ChunkOfCompletion {
    const choices = [{ index: 0, delta, logprobs: null, finish_reason: finish }];
    const usage = this.#options.includeUsage ? { usage: null } : {};
    return { ...this.#head('chat.completion.chunk'), choices, ...usage };
  }

  #head(object: string) {
    const { id, created, model } = this.#options;
    return { id, object, created, model };
  }
}

/** Between the texts of two iterations. */
const between = '\n\n';

function joined(texts: readonly SentText[]): string {
  return texts
    .map(({ text }) => text)
    .filter((text) => text !== '')
    .join(between);
}

/** Why a turn that asks is over: nobody can answer here. */
export function asked(kind: string): WireError {
  const code = kind === 'approval' ? 'approval_required' : 'input_required';
  const what = kind === 'approval' ? 'A call of a tool needs an approval' : 'The turn needs an answer';
  return {
    message: `${what}, which this endpoint cannot ask for; the turn was canceled.`,
    type: 'invalid_request_error',
    param: null,
    code,
  };
}
