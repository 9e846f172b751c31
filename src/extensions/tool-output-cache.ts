import {
  type ArgumentCheck,
  type Content,
  type Extension,
  type IterationChange,
  type IterationView,
  type Message,
  type ToolAnswer,
  type ToolCallRequest,
  type ToolMessage,
  type ToolProvider,
  textOf,
} from '../core/contracts/index.ts';
import { History, type LoopState, type TurnIdentity } from '../core/journal/index.ts';
import { assertOptions, wholeNumber } from '../options/option-rules.ts';
import { engineDefinition } from '../tools/tool.ts';
import { compactionName, indexAfterCompaction, isCompaction } from './context/compaction.ts';
import {
  firstLargeOutput,
  isLarge,
  oldResultsEnd,
  type TrimOptions,
  trimBetween,
} from './context/trim-tool-outputs.ts';

/** Options of `toolOutputCache`: which tool outputs are truncated. */
export interface ToolOutputCacheOptions {
  /** How many of the newest tool outputs stay whole; unanswered ones always do. Default 5. */
  readonly keepLast?: number | undefined;
  /** An older output of more characters is truncated to its beginning and its end, about this long in total. Default 2,000. */
  readonly maxChars?: number | undefined;
}

/**
 * Truncates old large tool outputs in the model's requests. From the first one on the model is offered the tool
 * `read_tool_output`, which returns any part of an output, in pages. History and journal keep all of them whole; nothing is
 * stored twice, and only outputs in the turn's history can be read. Time is linear in the messages after the last compaction; memory: the
 * truncated forms, and an id per output, while the turn runs. Errors: `INVALID_CONFIG`, naming the option.
 */
export function toolOutputCache(options: ToolOutputCacheOptions = {}): Extension {
  assertOptions('toolOutputCache', options, { keepLast: wholeNumber(0), maxChars: wholeNumber(1) });
  const { keepLast = 5, maxChars = 2_000 } = options;
  // A note names its output by its position in the turn, so turns that share messages do not share truncated forms.
  const turns = new WeakMap<TurnIdentity, TurnOutputs>();
  const outputsOf = (turn: TurnIdentity): TurnOutputs => {
    const outputs = turns.get(turn) ?? new TurnOutputs({ keepLast, maxChars });
    turns.set(turn, outputs);
    return outputs;
  };
  return {
    name: 'tool-output-cache',
    toolProviders: [toolOutputReader],
    isDue: (_, state, call) =>
      call ? call.function.name === readToolOutputName : outputsOf(state.turn).hasLarge(state.history),
    prepareIteration: (view, { state }) => outputsOf(state.turn).shortened(view, state),
    beforeToolCall: (request) =>
      request.call.function.name === readToolOutputName ? { answer: answerTo(request) } : undefined,
  };
}

/** The outputs of one turn. Those that a compaction has replaced are not scanned again, and their truncated forms are freed. */
class TurnOutputs {
  readonly #limits: Pick<TrimOptions, 'keepLast' | 'maxChars'>;
  readonly #ids = new OutputIds();
  #history = History.of([]);
  #compaction: unknown;
  #options: TrimOptions;
  /** The index of the first large one among those that the compaction replaced; -1: there is none. */
  #firstCompacted = -1;
  /** The previous view, and how many of its first messages were sent unchanged. */
  #seen: readonly Message[] = [];
  #whole = 0;
  /** How many of the first messages of the history contain no large output. */
  #small = 0;
  /** The large one after these, once it was found. */
  #large: Message | undefined;

  constructor(limits: Pick<TrimOptions, 'keepLast' | 'maxChars'>) {
    this.#limits = limits;
    this.#options = this.#trimOptions();
  }

  /** Whether an answered output of the history is large. Each message is looked at once. */
  hasLarge(history: History): boolean {
    let end = history.length - 1;
    while (end > 0 && history.at(end)?.role === 'tool') end--;
    if (this.#large && this.#small < end && history.at(this.#small) === this.#large) return true;
    for (const message of history.toArray(this.#small)) {
      if (this.#small >= end) break;
      if (message.role === 'tool' && isLarge(message, this.#limits.maxChars)) {
        this.#large = message;
        return true;
      }
      this.#small++;
    }
    return false;
  }

  shortened(view: IterationView, { history, changes }: LoopState): IterationChange | undefined {
    const { messages } = view;
    const compaction = changes.data[compactionName];
    const from = isCompaction(compaction) ? Math.max(indexAfterCompaction(messages, history, compaction), 0) : 0;
    if (compaction !== this.#compaction) {
      this.#compaction = compaction;
      this.#options = this.#trimOptions();
      this.#firstCompacted = firstLargeOutput(messages.slice(0, from), this.#limits);
    }
    this.#history = history;
    const end = oldResultsEnd(messages, this.#limits.keepLast);
    const short = trimBetween(messages, this.#options, { from: Math.max(from, this.#firstToLookAt(messages)), end });
    this.#noteWhole(messages, short, end);
    // The model may know of an output that it no longer receives.
    const shortenedBefore = this.#firstCompacted >= 0 && this.#firstCompacted < end;
    if (short === messages && !shortenedBefore) return undefined;
    return { view: { messages: short, tools: namesWithReader(view) } };
  }

  #trimOptions(): TrimOptions {
    return { ...this.#limits, reference: (_, result) => this.#reference(result) };
  }

  #reference(result: ToolMessage): string | undefined {
    const id = this.#ids.idOf(this.#history, result);
    return id === undefined ? undefined : `given by ${readToolOutputName}({"id":${JSON.stringify(id)}})`;
  }

  /** The index after the unchanged messages shared with the previous view; never between a call and its results. */
  #firstToLookAt(messages: readonly Message[]): number {
    let index = 0;
    while (index < this.#whole && messages[index] === this.#seen[index]) index++;
    while (index > 0 && messages[index]?.role === 'tool') index--;
    return index;
  }

  #noteWhole(messages: readonly Message[], short: readonly Message[], end: number): void {
    let index = short === messages ? end : 0;
    while (index < end && messages[index] === short[index]) index++;
    this.#seen = messages;
    this.#whole = index;
  }
}

function namesWithReader({ tools }: IterationView): readonly string[] {
  return [...new Set([...tools.map((tool) => tool.function.name), readToolOutputName])];
}

function answerTo({ state, arguments: given }: ToolCallRequest): ToolAnswer {
  const part = outputPart(given);
  const error = (message: string) => ({ content: `Tool error: ${message}.`, success: false, error: message });
  if (typeof part === 'string') return error(part);
  const found = outputOf(state.history, part.id);
  if (found) return { content: pageOf(found.content, part) };
  return error(`there is no output "${part.id}" in this conversation; take the id from the note of the shortened one`);
}

/** The ids of the outputs in a growing history: the id of the call; repeated ids get a number. Each message is read once. */
class OutputIds {
  #read = 0;
  #seen = new Map<string, number>();
  readonly #ids = new WeakMap<ToolMessage, string>();

  idOf(history: History, output: ToolMessage): string | undefined {
    this.#readTo(history);
    if (!this.#ids.has(output)) this.#readAgain(history);
    return this.#ids.get(output);
  }

  #readTo(history: History): void {
    for (; this.#read < history.length; this.#read++) {
      const message = history.at(this.#read);
      if (message?.role === 'tool') this.#ids.set(message, this.#nextId(message));
    }
  }

  /** Starts over: extensions may replace a message that was read. */
  #readAgain(history: History): void {
    this.#read = 0;
    this.#seen = new Map();
    this.#readTo(history);
  }

  #nextId({ toolCallId }: ToolMessage): string {
    const count = (this.#seen.get(toolCallId) ?? 0) + 1;
    this.#seen.set(toolCallId, count);
    return count === 1 ? toolCallId : `${toolCallId}#${count}`;
  }
}

/** The output in a history with this id. */
function outputOf(history: History, id: string): ToolMessage | undefined {
  const ids = new OutputIds();
  for (const message of history) if (message.role === 'tool' && ids.idOf(history, message) === id) return message;
  return undefined;
}

const readToolOutputName = 'read_tool_output';

/** Characters of a page. */
const pageLength = { default: 4_000, most: 16_000 };

/** A part of a truncated output. */
interface OutputPart {
  readonly id: string;
  /** Its start. Characters, from 0. */
  readonly offset: number;
  readonly length: number;
}

/** A page of an output, and the offset of the next one. Parts other than text are on the first page. */
function pageOf(content: Content, { offset, length }: Omit<OutputPart, 'id'>): Content {
  const text = textOf(content);
  const page = text.slice(offset, offset + length);
  const end = Math.min(offset, text.length) + page.length;
  const rest = end < text.length ? `; continue with offset ${end}` : '';
  const noted = `[characters ${end - page.length} to ${end} of ${text.length}${rest}]\n${page}`;
  if (typeof content === 'string' || offset > 0) return noted;
  const attachments = content.filter(({ type }) => type !== 'text');
  return attachments.length === 0 ? noted : [{ type: 'text', text: noted }, ...attachments];
}

/** Parses the tool's arguments. Returns an error message for the model if they are invalid. */
function outputPart(value: unknown): OutputPart | string {
  if (typeof value !== 'object' || value === null || !('id' in value) || typeof value.id !== 'string') {
    return 'id must be the text that stands in the note of the shortened output';
  }
  const offset = 'offset' in value ? value.offset : 0;
  const length = 'length' in value ? value.length : pageLength.default;
  if (!isCount(offset, 0)) return 'offset must be a whole number from 0';
  if (!isCount(length, 1)) return `length must be a whole number from 1 to ${pageLength.most}`;
  return { id: value.id, offset, length: Math.min(length, pageLength.most) };
}

function isCount(value: unknown, least: number): value is number {
  return Number.isSafeInteger(value) && Number(value) >= least;
}

function checkArguments(value: unknown): ArgumentCheck {
  const part = outputPart(value);
  return typeof part === 'string' ? { ok: false, message: part } : { ok: true, value: part };
}

const definition = engineDefinition({
  type: 'function',
  hidden: true,
  readOnly: true,
  idempotent: true,
  checkArguments,
  function: {
    name: readToolOutputName,
    description:
      'Reads a tool output again that was shortened in this conversation, by the id that stands in its note. Long outputs come in pages.',
    parameters: {
      type: 'object',
      properties: {
        id: { type: 'string', description: 'The id in the note of the shortened output.' },
        offset: { type: 'integer', minimum: 0, description: 'The character to begin with. Default 0.' },
        length: {
          type: 'integer',
          minimum: 1,
          maximum: pageLength.most,
          description: `How many characters at most. Default ${pageLength.default}.`,
        },
      },
      required: ['id'],
      additionalProperties: false,
    },
  },
});

/** Offers the tool; its extension answers the calls, since it has the history. */
const toolOutputReader: ToolProvider = {
  name: 'toolOutputCache',
  getTools: () => [definition],
  executeTool: () => Promise.reject(new Error(`${readToolOutputName} is answered by the extension toolOutputCache`)),
};
