import type { UIChunk, UIMessageMetadata } from 'millrace/ui';

/** A part of a UI message, as `ai` keeps it, as far as a turn gives it. */
export interface UIPart {
  readonly type: string;
  readonly toolCallId?: string;
  toolName?: string;
  state?: string;
  text?: string;
  isVoid?: true;
  input?: unknown;
  output?: unknown;
  errorText?: string;
  approvalId?: string;
  readonly data?: unknown;
}

/** Chunks folded to a message as `ai` 7 folds them, and as strictly: a chunk without its beginning throws. Tests with the real packages check that it does. */
export class FoldedMessage {
  id: string | undefined;
  metadata: Partial<UIMessageMetadata> = {};
  parts: UIPart[] = [];
  error: string | undefined;
  isFinished = false;
  #open = new Map<string, UIPart>();

  add(chunk: UIChunk): void {
    if (this.error !== undefined || this.isFinished) throw new Error(`${chunk.type} after the end`);
    switch (chunk.type) {
      case 'start':
        this.id = chunk.messageId;
        this.metadata = { ...this.metadata, ...chunk.messageMetadata };
        return;
      case 'start-step':
        this.parts.push({ type: 'step-start' });
        return;
      case 'finish-step':
        return;
      case 'reset-step':
        this.#open.clear();
        this.parts = this.parts.slice(0, this.parts.findLastIndex(({ type }) => type === 'step-start') + 1);
        return;
      case 'text-start':
      case 'reasoning-start': {
        if (this.#open.has(chunk.id)) throw new Error(`${chunk.type} of ${chunk.id}, which is open`);
        const part = { type: chunk.type.replace('-start', ''), text: '', state: 'streaming' };
        this.parts.push(part);
        this.#open.set(chunk.id, part);
        return;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const part = this.#opened(chunk.id);
        part.text += chunk.delta;
        return;
      }
      case 'text-end':
      case 'reasoning-end': {
        const part = this.#opened(chunk.id);
        part.state = 'done';
        if (chunk.providerMetadata) part.isVoid = true;
        this.#open.delete(chunk.id);
        return;
      }
      case 'tool-input-start': {
        const { toolCallId, toolName } = chunk;
        if (this.#tool(toolCallId)) throw new Error(`a second ${toolCallId}`);
        this.parts.push({ type: 'dynamic-tool', toolCallId, toolName, state: 'input-streaming', input: '' });
        return;
      }
      case 'tool-input-delta': {
        const part = this.#known(chunk.toolCallId);
        if (part.state !== 'input-streaming') throw new Error(`a delta in state ${part.state}`);
        part.input = `${part.input}${chunk.inputTextDelta}`;
        return;
      }
      case 'tool-input-available': {
        const { toolCallId, toolName, input } = chunk;
        const part = this.#tool(toolCallId) ?? { type: 'dynamic-tool', toolCallId };
        if (!this.parts.includes(part)) this.parts.push(part);
        Object.assign(part, { toolName, input, state: 'input-available' });
        return;
      }
      case 'tool-output-available':
        Object.assign(this.#known(chunk.toolCallId), { state: 'output-available', output: chunk.output });
        return;
      case 'tool-output-error':
        Object.assign(this.#known(chunk.toolCallId), { state: 'output-error', errorText: chunk.errorText });
        return;
      case 'tool-output-denied':
        this.#known(chunk.toolCallId).state = 'output-denied';
        return;
      case 'tool-approval-request':
        Object.assign(this.#known(chunk.toolCallId), { state: 'approval-requested', approvalId: chunk.approvalId });
        return;
      case 'message-metadata':
      case 'finish':
        this.metadata = { ...this.metadata, ...chunk.messageMetadata };
        this.isFinished = chunk.type === 'finish';
        return;
      case 'error':
        this.error = chunk.errorText;
        return;
      default:
        this.#addData(chunk);
    }
  }

  /** The client posts again: what follows is added to the same message. */
  continue(): void {
    this.isFinished = false;
    this.#open.clear();
  }

  get text(): string {
    return this.parts.flatMap(({ type, text, isVoid }) => (type === 'text' && !isVoid ? [text] : [])).join('');
  }

  #addData(chunk: Extract<UIChunk, { data: unknown }>): void {
    if (chunk.transient) return;
    const at = this.parts.findIndex(({ type, toolCallId }) => type === chunk.type && toolCallId === chunk.id);
    const part = { type: chunk.type, ...(chunk.id === undefined ? {} : { toolCallId: chunk.id }), data: chunk.data };
    if (at === -1) this.parts.push(part);
    else this.parts[at] = part;
  }

  #opened(id: string): UIPart {
    const part = this.#open.get(id);
    if (!part) throw new Error(`no open part ${id}`);
    return part;
  }

  #tool(toolCallId: string): UIPart | undefined {
    return this.parts.find((part) => part.toolCallId === toolCallId && part.type === 'dynamic-tool');
  }

  #known(toolCallId: string): UIPart {
    const part = this.#tool(toolCallId);
    if (!part) throw new Error(`no tool invocation ${toolCallId}`);
    return part;
  }
}

export function foldedOf(chunks: Iterable<UIChunk>, message = new FoldedMessage()): FoldedMessage {
  for (const chunk of chunks) message.add(chunk);
  return message;
}
