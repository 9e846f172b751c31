import { type AgentEvent, type ErrorCode, invalidConfig, shownValue } from '../core/contracts/index.ts';
import type { ShownEnd, ShownQuestion, ShownStep, VoidStep } from './shown-steps.ts';
import { assertStreamOptions, isRetryableCode, type Shown, type StreamOptions, shownOf } from './stream-options.ts';
import { TurnReader } from './turn-reader.ts';
import type { UIChunk, UIMessageMetadata } from './ui-chunks.ts';

/** Options of the chunks for `useChat`. */
export interface UIMessageOptions extends StreamOptions {
  /** The major version of `ai` at the client: 6 refuses chunks that 7 knows. Default 7. */
  readonly sdk?: 6 | 7 | undefined;
}

export const uiMessageNames = { sdk: true } as const;

/**
 * The chunks of the UI message stream of the AI SDK for the events of one turn: a function for one stream, called with each event in order. Pure: no I/O, no
 * clock. A replay of the turn gives chunks that fold to the same message. Ids of tool calls and approvals are `<taskId>/<id>`, the id of the message is the
 * task id. Holds the open iteration. Errors: `INVALID_CONFIG`.
 */
export function uiMessageChunks(options: UIMessageOptions = {}): (event: AgentEvent) => readonly UIChunk[] {
  assertStreamOptions('uiMessageChunks', options, uiMessageNames);
  const encoder = new UIMessageEncoder(options);
  return (event) => encoder.encode(event);
}

const dynamic = { dynamic: true, providerExecuted: true } as const;

export class UIMessageEncoder {
  readonly #shown: Shown;
  readonly #reader: TurnReader;
  readonly #canReset: boolean;
  /** Texts and reasoning that were begun. */
  readonly #open = new Set<string>();
  /** Of the tools of the calls, by their ids. */
  readonly #names = new Map<string, string>();
  /** In `ai` 6, whose parts can be marked as void only as long as they are open: what ends with the next iteration. */
  #ends: UIChunk[] = [];
  #taskId = '';

  constructor(options: UIMessageOptions) {
    const { sdk = 7 } = options;
    if (sdk !== 6 && sdk !== 7) throw invalidConfig(`sdk is ${shownValue(sdk)}`, 'it must be 6 or 7');
    this.#shown = shownOf(options);
    this.#reader = new TurnReader(this.#shown);
    this.#canReset = sdk === 7;
  }

  encode(event: AgentEvent): readonly UIChunk[] {
    return this.#reader.read(event).flatMap((step) => this.#chunks(step));
  }

  lost(error: unknown): readonly UIChunk[] {
    return this.#reader.lost(error).flatMap((step) => this.#chunks(step));
  }

  #chunks(step: ShownStep): readonly UIChunk[] {
    switch (step.type) {
      case 'begin':
        this.#taskId = step.taskId;
        return [{ type: 'start', messageId: step.taskId, messageMetadata: { taskId: step.taskId } }];
      case 'iteration':
        return [...this.#flush(), { type: 'start-step' }];
      case 'iteration-end':
        return this.#later({ type: 'finish-step' });
      case 'text':
      case 'reasoning': {
        const { type, text: delta } = step;
        const id = this.#canReset ? step.of : step.id;
        const start: readonly UIChunk[] = this.#open.has(id) ? [] : [{ type: `${type}-start`, id }];
        this.#open.add(id);
        return [...start, { type: `${type}-delta`, id, delta }];
      }
      case 'text-end':
      case 'reasoning-end': {
        const id = this.#canReset ? step.of : step.id;
        return this.#open.delete(id) ? this.#later({ type: step.type, id }) : [];
      }
      case 'call':
        this.#names.set(step.id, step.name);
        return [{ type: 'tool-input-start', toolCallId: step.id, toolName: step.name, ...dynamic }];
      case 'call-input':
        return [{ type: 'tool-input-delta', toolCallId: step.id, inputTextDelta: step.text }];
      case 'call-ready': {
        const { id: toolCallId, name: toolName, input = {} } = step;
        return [{ type: 'tool-input-available', toolCallId, toolName, input, ...dynamic }];
      }
      case 'call-update': {
        const { id: toolCallId, update: output = null } = step;
        return [{ type: 'tool-output-available', toolCallId, output, preliminary: true, ...dynamic }];
      }
      case 'call-end': {
        const { id: toolCallId, code, output = null } = step;
        if (code === 'TOOL_REJECTED') return [{ type: 'tool-output-denied', toolCallId }];
        if (code === undefined) return [{ type: 'tool-output-available', toolCallId, output, ...dynamic }];
        return [this.#failed(toolCallId, code)];
      }
      case 'void':
        return this.#void(step);
      case 'question':
        return this.#question(step.question);
      case 'artifact': {
        const { id, recorded, type: _, ...data } = step;
        return [{ type: 'data-artifact', id, data, ...(recorded ? {} : { transient: true as const }) }];
      }
      case 'agent': {
        const { type: _, ...data } = step;
        return [{ type: 'data-agent', id: step.id, data, transient: true }];
      }
      case 'end':
        return [...this.#flush(), ...this.#end(step)];
    }
  }

  #later(chunk: UIChunk): readonly UIChunk[] {
    if (this.#canReset) return [chunk];
    this.#ends.push(chunk);
    return [];
  }

  #flush(): readonly UIChunk[] {
    return this.#ends.splice(0);
  }

  #void({ texts, calls, standing, fresh }: VoidStep): readonly UIChunk[] {
    if (this.#canReset) {
      this.#open.clear();
      return [{ type: 'reset-step' }, ...standing.flatMap((step) => this.#chunks(step))];
    }
    const chunks: UIChunk[] = [];
    const providerMetadata = { millrace: { void: true } } as const;
    for (const id of texts) {
      const type = id.startsWith(`${this.#taskId}/reasoning-`) ? 'reasoning-end' : 'text-end';
      const at = this.#ends.findIndex((chunk) => chunk.type === type && chunk.id === id);
      if (at !== -1) this.#ends.splice(at, 1);
      if (this.#open.delete(id) || at !== -1) chunks.push({ type, id, providerMetadata });
    }
    for (const toolCallId of calls) chunks.push(this.#failed(toolCallId, 'TOOL_SKIPPED'));
    return [...chunks, ...fresh.flatMap((step) => this.#chunks(step))];
  }

  #failed(toolCallId: string, code: ErrorCode): UIChunk {
    const providerMetadata = { millrace: { code } };
    const errorText = this.#shown.errorText({ code });
    return { type: 'tool-output-error', toolCallId, errorText, providerMetadata, ...dynamic };
  }

  #question(question: ShownQuestion): readonly UIChunk[] {
    const { id, callId: toolCallId, kind, toolName, prompt, data } = question;
    if (kind !== 'approval') return [{ type: 'data-question', id, data: question }];
    const descriptor = {
      ...(toolName === undefined ? {} : { toolName }),
      ...(prompt === undefined ? {} : { prompt }),
      ...(data === undefined ? {} : { input: data }),
    };
    const described = Object.keys(descriptor).length > 0 ? { approvalDescriptor: descriptor } : {};
    // The call was announced without its arguments: an empty input beside the question would say that there are none. A sub-agent asks for a call of its own.
    const name = this.#names.get(toolCallId);
    const isBare = this.#shown.tools === 'names' && name !== undefined && name === toolName && data !== undefined;
    const input: readonly UIChunk[] = isBare
      ? [{ type: 'tool-input-available', toolCallId, toolName: name, input: data, ...dynamic }]
      : [];
    return [...input, { type: 'tool-approval-request', approvalId: id, toolCallId, ...described }];
  }

  /** An `error` makes the client throw: nothing that comes after it is read. */
  #end({ taskId, state, reason, code, usage, cursor, unread, questions }: ShownEnd): readonly UIChunk[] {
    const isLost = state === 'working';
    const messageMetadata: UIMessageMetadata = {
      taskId,
      ...(isLost ? {} : { state }),
      ...(reason === undefined ? {} : { reason }),
      ...(code === undefined ? {} : { code, errorText: this.#shown.errorText({ code }) }),
      ...(isLost && code !== undefined ? { retryable: isRetryableCode(code) } : {}),
      ...(usage ? { usage } : {}),
      ...(cursor === undefined ? {} : { cursor }),
      ...(unread && { unread }),
      // Clients merge metadata: none replaces those that were answered.
      ...(isLost ? {} : { questions: questions.map(({ id }) => id) }),
    };
    if (code !== undefined)
      return [
        { type: 'message-metadata', messageMetadata },
        { type: 'error', errorText: this.#shown.errorText({ code }) },
      ];
    const finishReason = state === 'completed' ? (reason === 'length' ? 'length' : 'stop') : 'other';
    return [{ type: 'finish', finishReason, messageMetadata }];
  }
}
