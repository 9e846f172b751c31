import type { AgentEvent } from '../../core/contracts/index.ts';
import type { Encoder } from '../event-stream.ts';
import type { ShownEnd, ShownQuestion, ShownStep } from '../shown-steps.ts';
import { type Shown, type StreamOptions, shownOf } from '../stream-options.ts';
import { TurnReader } from '../turn-reader.ts';
import { asked } from './chat-completions.ts';
import { responseUsage, SentText, type WireError, wireErrorOf } from './wire.ts';

export interface ResponseOptions extends StreamOptions {
  /** The id of the agent. */
  readonly model: string;
  readonly id: string;
  /** Seconds. */
  readonly created: number;
  readonly previous: string | null;
  /** Whether the events are sent one by one: what was sent cannot be taken back then. */
  readonly isStreamed: boolean;
  /** What the response repeats of its request. Default: nothing. */
  readonly echo?: Members | undefined;
}

type Members = Readonly<Record<string, unknown>>;

/** An item of the output, as it is sent. */
export type ResponseItem = Members & { readonly id: string };

/** The types of items, by the prefixes of their ids. */
export const itemTypes = {
  msg: 'message',
  rs: 'reasoning',
  mcp: 'mcp_call',
  mcpr: 'mcp_approval_request',
} as const;

type ItemKind = keyof typeof itemTypes;

/** `<kind>_`, the conversation and the turn as in the id of the response, `_`, and what of the turn it is: each item has an id of its own, by which its turn is found. */
const itemId = /^(msg|rs|mcp|mcpr)_([\w-]{22})([\w-]{43})_(.+)$/s;

/** What the id of an item names; `undefined` for one that is not of a response. `question`: the id of the question where it is an approval request. */
export function ofItem(id: string) {
  const [, kind, conversation, taskId, of] = itemId.exec(id) ?? [];
  if (kind === undefined || !isItemKind(kind)) return undefined;
  return { kind, response: `resp_${conversation}${taskId}`, question: `${taskId}/${of}` };
}

function isItemKind(kind: string): kind is ItemKind {
  return Object.hasOwn(itemTypes, kind);
}

/** An item of the output. */
interface Item {
  readonly index: number;
  value: ResponseItem;
  isOpen: boolean;
}

/** The open message or reasoning of an iteration. */
interface OpenText extends SentText {
  item: Item | undefined;
}

/**
 * Writes a turn as one response of the Responses API: a message for the text of each iteration, `mcp_call` for each call that the agent made, and
 * `mcp_approval_request` for each that waits for an approval. Holds the output.
 */
export class ResponseEncoder implements Encoder<Members> {
  readonly #options: ResponseOptions;
  readonly #shown: Shown;
  readonly #reader: TurnReader;
  readonly #items: Item[] = [];
  readonly #calls = new Map<string, { readonly item: Item; arguments: string }>();
  #text: OpenText;
  #reasoning: OpenText;
  #iteration = 0;
  #sequence = 0;
  #end: Members | undefined;

  constructor(options: ResponseOptions) {
    this.#options = options;
    this.#shown = shownOf(options);
    this.#reader = new TurnReader(this.#shown);
    this.#text = openText(options.isStreamed);
    this.#reasoning = openText(options.isStreamed);
  }

  encode(event: AgentEvent): readonly Members[] {
    return this.#number(this.#reader.read(event));
  }

  lost(error: unknown): readonly Members[] {
    return this.#number(this.#reader.lost(error));
  }

  get items(): readonly ResponseItem[] {
    return this.#items.map(({ value }) => value);
  }

  /** The response as it stands. */
  get response(): Members {
    const { id, created, model, previous } = this.#options;
    return {
      id,
      object: 'response',
      access_programs: null,
      created_at: created,
      status: 'in_progress',
      error: null,
      incomplete_details: null,
      instructions: null,
      max_output_tokens: null,
      metadata: {},
      model,
      output: this.items,
      parallel_tool_calls: true,
      previous_response_id: previous,
      store: true,
      temperature: null,
      text: { format: { type: 'text' } },
      tool_choice: 'auto',
      tools: [],
      top_p: null,
      truncation: 'disabled',
      ...this.#options.echo,
      ...this.#end,
    };
  }

  #number(steps: readonly ShownStep[]): readonly Members[] {
    return steps
      .flatMap((step) => this.#events(step))
      .map((event) => ({ ...event, sequence_number: this.#sequence++ }));
  }

  #events(step: ShownStep): readonly Members[] {
    if (this.#end) return [];
    switch (step.type) {
      case 'begin':
        return ['response.created', 'response.in_progress'].map((type) => ({ type, response: this.response }));
      case 'iteration':
        this.#iteration = step.iteration;
        this.#text = openText(this.#options.isStreamed);
        this.#reasoning = openText(this.#options.isStreamed);
        return [];
      case 'text':
        return this.#say(step.text);
      case 'reasoning':
        return this.#reason(step.text);
      case 'artifact':
        return step.recorded && step.data !== undefined ? this.#say(JSON.stringify(step.data)) : [];
      case 'call':
        return this.#call(step.id, step.name);
      case 'call-ready':
        return this.#ready(step.id, step.input);
      case 'call-end':
        return this.#called(step);
      case 'question':
        return this.#ask(step.question);
      case 'void':
        return this.#void(step.texts, step.calls, step.standing);
      case 'iteration-end':
        return this.#text.stands
          ? [...this.#closeReasoning(), ...this.#closeText()]
          : this.#failed(wireErrorOf('PROVIDER_STREAM_CLOSED', this.#shown.errorText));
      case 'end':
        return this.#over(step);
      default:
        return [];
    }
  }

  #add(value: Item['value']): readonly [Item, Members] {
    const item: Item = { index: this.#items.length, value, isOpen: true };
    this.#items.push(item);
    return [item, { type: 'response.output_item.added', output_index: item.index, item: value }];
  }

  /** `of`: the iteration, or `<taskId>/<id>`. The same whenever the turn is read, with a number where a call was made, discarded and made again. */
  #idOf(kind: ItemKind, of: number | string): string {
    const turn = this.#options.id.replace(/^resp_|\.\d+$/g, '');
    const id = `${kind}_${turn}_${typeof of === 'number' ? of : of.slice(of.indexOf('/') + 1)}`;
    const isTaken = this.#items.some(({ value }) => value.id === id);
    return isTaken ? `${id}~${this.#items.length}` : id;
  }

  #done(item: Item, change: Members): Members {
    item.value = { ...item.value, ...change };
    item.isOpen = false;
    return { type: 'response.output_item.done', output_index: item.index, item: item.value };
  }

  #say(text: string): readonly Members[] {
    const delta = this.#text.add(text);
    if (delta === undefined) return this.#failed(wireErrorOf('PROVIDER_STREAM_CLOSED', this.#shown.errorText));
    if (delta === '') return [];
    const events: Members[] = [...this.#closeReasoning()];
    let { item } = this.#text;
    if (!item) {
      const id = this.#idOf('msg', this.#iteration);
      const [made, added] = this.#add({ id, type: 'message', role: 'assistant', status: 'in_progress', content: [] });
      item = made;
      this.#text.item = made;
      events.push(added, { type: 'response.content_part.added', ...inside(made), part: part('') });
    }
    return [...events, { type: 'response.output_text.delta', ...inside(item), delta, logprobs: [] }];
  }

  #closeText(): readonly Members[] {
    const { item, text } = this.#text;
    if (!item?.isOpen) return [];
    return [
      { type: 'response.output_text.done', ...inside(item), text, logprobs: [] },
      { type: 'response.content_part.done', ...inside(item), part: part(text) },
      this.#done(item, { status: 'completed', content: [part(text)] }),
    ];
  }

  /** Reasoning that changes is shown as it was. */
  #reason(text: string): readonly Members[] {
    const delta = this.#reasoning.add(text) ?? '';
    if (delta === '') return [];
    const events: Members[] = [];
    let { item } = this.#reasoning;
    if (!item) {
      const [made, added] = this.#add({ id: this.#idOf('rs', this.#iteration), type: 'reasoning', summary: [] });
      item = made;
      this.#reasoning.item = made;
      const shown = { item_id: made.value.id, output_index: made.index, summary_index: 0 };
      events.push(added, { type: 'response.reasoning_summary_part.added', ...shown, part: summary('') });
    }
    if (!item.isOpen) return [];
    const shown = { item_id: item.value.id, output_index: item.index, summary_index: 0 };
    return [...events, { type: 'response.reasoning_summary_text.delta', ...shown, delta }];
  }

  #closeReasoning(): readonly Members[] {
    const { item, text } = this.#reasoning;
    if (!item?.isOpen) return [];
    const shown = { item_id: item.value.id, output_index: item.index, summary_index: 0 };
    return [
      { type: 'response.reasoning_summary_text.done', ...shown, text },
      { type: 'response.reasoning_summary_part.done', ...shown, part: summary(text) },
      this.#done(item, { summary: [summary(text)] }),
    ];
  }

  #call(id: string, name: string): readonly Members[] {
    const before = [...this.#closeReasoning(), ...this.#closeText()];
    const value = { type: 'mcp_call', server_label: this.#options.model, name, arguments: '', output: null };
    const [item, added] = this.#add({ id: this.#idOf('mcp', id), ...value, error: null, status: 'in_progress' });
    this.#calls.set(id, { item, arguments: '{}' });
    return [...before, added, { type: 'response.mcp_call.in_progress', ...called(item) }];
  }

  #ready(id: string, input: unknown): readonly Members[] {
    const call = this.#calls.get(id);
    if (!call || input === undefined) return [];
    call.arguments = JSON.stringify(input);
    return [{ type: 'response.mcp_call_arguments.done', ...called(call.item), arguments: call.arguments }];
  }

  #called(step: Extract<ShownStep, { readonly type: 'call-end' }>): readonly Members[] {
    const { id, name, code, output } = step;
    const added = this.#calls.has(id) ? [] : this.#call(id, name);
    const call = this.#calls.get(id);
    if (!call?.item.isOpen) return added;
    const isText = output === undefined || typeof output === 'string';
    const result = code === undefined ? { output: isText ? (output ?? null) : JSON.stringify(output) } : {};
    const error = code === undefined ? {} : { error: executionError(this.#shown.errorText({ code })) };
    return [...added, ...this.#ended(id, { ...result, ...error })];
  }

  #ended(id: string, change: Members): readonly Members[] {
    const call = this.#calls.get(id);
    if (!call?.item.isOpen) return [];
    const status = change['error'] === undefined ? 'completed' : 'failed';
    return [
      { type: `response.mcp_call.${status}`, ...called(call.item) },
      this.#done(call.item, { ...change, arguments: call.arguments, status }),
    ];
  }

  /** A call that waits for an approval is a request; the call itself is an item once it has run. */
  #ask({ id, callId, kind, toolName = 'tool', data }: ShownQuestion): readonly Members[] {
    if (kind !== 'approval') return [];
    // Empty where tools are hidden: "{}" would say that there are none.
    const given = data === undefined ? '' : JSON.stringify(data);
    const ended = this.#ended(callId, { error: executionError('The call waits for an approval.') });
    const value = { type: 'mcp_approval_request', server_label: this.#options.model, name: toolName };
    const [item, added] = this.#add({ id: this.#idOf('mcpr', id), ...value, arguments: given });
    return [...ended, added, this.#done(item, {})];
  }

  #void(texts: readonly string[], calls: readonly string[], standing: readonly ShownStep[]): readonly Members[] {
    const ended = calls.flatMap((id) =>
      this.#ended(id, { error: executionError('The model did not make this call.') }),
    );
    for (const id of calls) this.#calls.delete(id);
    if (texts.length === 0) return ended;
    const { item } = this.#text;
    // An iteration that has ended may have text that a guardrail replaces: it is in no response that is still to be sent.
    if (item && !this.#options.isStreamed) item.isOpen = true;
    this.#text.restart();
    this.#reasoning.restart();
    const again = standing.filter(({ type }) => type === 'text' || type === 'reasoning');
    return [...ended, ...again.flatMap((step) => this.#events(step))];
  }

  #over({ state, code, usage, questions }: ShownEnd): readonly Members[] {
    const open = [...this.#closeReasoning(), ...this.#closeText()];
    const spent = { usage: responseUsage(usage) };
    const other = questions.find(({ kind }) => kind !== 'approval');
    if (other) return [...open, ...this.#failed(asked(other.kind), spent)];
    if (state === 'completed' || questions.length > 0) {
      this.#end = { status: 'completed', ...spent };
      return [...open, { type: 'response.completed', response: this.response }];
    }
    if (code === 'LENGTH' || code === 'CONTENT_FILTER') {
      const reason = code === 'LENGTH' ? 'max_output_tokens' : 'content_filter';
      this.#end = { status: 'incomplete', incomplete_details: { reason }, ...spent };
      return [...open, { type: 'response.incomplete', response: this.response }];
    }
    const error = wireErrorOf(code ?? (state === 'canceled' ? 'CANCELED' : 'INTERNAL'), this.#shown.errorText);
    return [...open, ...this.#failed(error, { ...spent, ...(state === 'canceled' ? { status: 'cancelled' } : {}) })];
  }

  #failed({ code, message, type, param }: WireError, more: Members = {}): readonly Members[] {
    const output = this.#items.length === 0 ? this.#sayNothing() : [];
    this.#end = { status: 'failed', error: { code, message, type, param }, ...more };
    return [...output, { type: 'response.failed', response: this.response }];
  }

  /** The AI SDK repeats a request whose stream failed before it had any output. */
  #sayNothing(): readonly Members[] {
    const message = { type: 'message', role: 'assistant', status: 'in_progress', content: [] };
    const [item, added] = this.#add({ id: this.#idOf('msg', this.#iteration), ...message });
    return [added, this.#done(item, { status: 'incomplete' })];
  }
}

function openText(isStreamed: boolean): OpenText {
  return Object.assign(new SentText(isStreamed), { item: undefined });
}

/** Why a call gave nothing, as results of MCP say it. */
function executionError(text: string) {
  return { type: 'mcp_tool_execution_error', content: [{ type: 'text', text }] };
}

function inside({ value, index }: Item) {
  return { item_id: value.id, output_index: index, content_index: 0 };
}

function called({ value, index }: Item) {
  return { item_id: value.id, output_index: index };
}

function part(text: string) {
  return { type: 'output_text', text, annotations: [], logprobs: [] };
}

function summary(text: string) {
  return { type: 'summary_text', text };
}
