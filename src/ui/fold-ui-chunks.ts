import type { UIChunk } from './ui-chunks.ts';

type Part = Record<string, unknown>;

/** What a message of `useChat` has of a turn. */
export interface FoldedTurn {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly parts: readonly Readonly<Part>[];
}

/** The message that a client has at the end of a stream for `ai` 7, as that client folds it. */
export function foldUIChunks(chunks: Iterable<UIChunk>): FoldedTurn {
  const fold = new UIMessageFold();
  for (const chunk of chunks) fold.take(chunk);
  return fold;
}

/** The same, chunk by chunk: `parts` and their members change in place. */
export class UIMessageFold implements FoldedTurn {
  metadata: Readonly<Record<string, unknown>> = {};
  parts: Part[] = [];
  readonly #open = new Map<string, Part>();

  take(chunk: UIChunk): void {
    switch (chunk.type) {
      case 'start':
      case 'finish':
      case 'message-metadata':
        this.metadata = { ...this.metadata, ...chunk.messageMetadata };
        break;
      case 'start-step':
        this.parts.push({ type: 'step-start' });
        break;
      case 'reset-step':
        this.#open.clear();
        this.parts = this.parts.slice(0, this.parts.findLastIndex(({ type }) => type === 'step-start') + 1);
        break;
      case 'text-start':
      case 'reasoning-start': {
        const type = chunk.type === 'text-start' ? 'text' : 'reasoning';
        const part: Part = { type, text: '', state: 'streaming' };
        this.#open.set(chunk.id, part);
        this.parts.push(part);
        break;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const part = this.#open.get(chunk.id);
        if (part) part['text'] = `${part['text']}${chunk.delta}`;
        break;
      }
      case 'text-end':
      case 'reasoning-end':
        Object.assign(this.#open.get(chunk.id) ?? {}, { state: 'done' });
        this.#open.delete(chunk.id);
        break;
      case 'finish-step':
      case 'tool-input-delta':
      case 'error':
        break;
      default:
        if ('toolCallId' in chunk) this.#takeTool(chunk);
        else if (!chunk.transient) this.parts.push({ type: chunk.type, id: chunk.id, data: chunk.data });
    }
  }

  #takeTool(chunk: Extract<UIChunk, { readonly toolCallId: string }>): void {
    switch (chunk.type) {
      case 'tool-input-start':
      case 'tool-input-available': {
        const { toolCallId, toolName } = chunk;
        const isReady = chunk.type === 'tool-input-available';
        const input = isReady ? { input: chunk.input } : {};
        const state = isReady ? 'input-available' : 'input-streaming';
        Object.assign(this.#toolOf(toolCallId), { toolName, ...input, state });
        break;
      }
      case 'tool-output-available': {
        const { output, preliminary } = chunk;
        this.#settle(chunk.toolCallId, { state: 'output-available', output, preliminary }, true);
        break;
      }
      case 'tool-output-error':
        this.#settle(
          chunk.toolCallId,
          { state: 'output-error', errorText: chunk.errorText, resultProviderMetadata: chunk.providerMetadata },
          true,
        );
        break;
      case 'tool-output-denied':
        this.#settle(chunk.toolCallId, { state: 'output-denied' }, false);
        break;
      case 'tool-approval-request': {
        const { approvalId: id, approvalDescriptor: descriptor } = chunk;
        const approval = descriptor === undefined ? { id } : { id, descriptor };
        Object.assign(this.#toolOf(chunk.toolCallId), { state: 'approval-requested', approval });
      }
    }
  }

  #toolOf(toolCallId: string): Part {
    const known = this.parts.find((part) => part['toolCallId'] === toolCallId);
    if (known) return known;
    const part: Part = { type: 'dynamic-tool', toolCallId, providerExecuted: true };
    this.parts.push(part);
    return part;
  }

  #settle(toolCallId: string, members: Part, approved: boolean): void {
    const part = this.#toolOf(toolCallId);
    const approval = part['approval'];
    Object.assign(part, members, approval ? { approval: { ...Object(approval), approved } } : {});
  }
}
