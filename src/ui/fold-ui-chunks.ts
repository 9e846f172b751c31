import type { UIChunk } from './ui-chunks.ts';

type Part = Record<string, unknown>;

/** What a message of `useChat` has of a turn. */
export interface FoldedTurn {
  readonly metadata: Readonly<Record<string, unknown>>;
  readonly parts: readonly Readonly<Part>[];
}

/** The message that a client has at the end of a stream for `ai` 7, as that client folds it. */
export function foldUIChunks(chunks: Iterable<UIChunk>): FoldedTurn {
  let metadata: Readonly<Record<string, unknown>> = {};
  let parts: Part[] = [];
  const open = new Map<string, Part>();
  const toolOf = (toolCallId: string): Part => {
    const known = parts.find((part) => part['toolCallId'] === toolCallId);
    if (known) return known;
    const part: Part = { type: 'dynamic-tool', toolCallId, providerExecuted: true };
    parts.push(part);
    return part;
  };
  const settle = (toolCallId: string, members: Part, approved: boolean) => {
    const part = toolOf(toolCallId);
    const approval = part['approval'];
    Object.assign(part, members, approval ? { approval: { ...Object(approval), approved } } : {});
  };
  for (const chunk of chunks) {
    switch (chunk.type) {
      case 'start':
      case 'finish':
      case 'message-metadata':
        metadata = { ...metadata, ...chunk.messageMetadata };
        break;
      case 'start-step':
        parts.push({ type: 'step-start' });
        break;
      case 'reset-step':
        open.clear();
        parts = parts.slice(0, parts.findLastIndex(({ type }) => type === 'step-start') + 1);
        break;
      case 'text-start':
      case 'reasoning-start': {
        const type = chunk.type === 'text-start' ? 'text' : 'reasoning';
        const part: Part = { type, text: '', state: 'streaming' };
        open.set(chunk.id, part);
        parts.push(part);
        break;
      }
      case 'text-delta':
      case 'reasoning-delta': {
        const part = open.get(chunk.id);
        if (part) part['text'] = `${part['text']}${chunk.delta}`;
        break;
      }
      case 'text-end':
      case 'reasoning-end':
        Object.assign(open.get(chunk.id) ?? {}, { state: 'done' });
        open.delete(chunk.id);
        break;
      case 'tool-input-start':
      case 'tool-input-available': {
        const { toolCallId, toolName } = chunk;
        const isReady = chunk.type === 'tool-input-available';
        const input = isReady ? { input: chunk.input } : {};
        Object.assign(toolOf(toolCallId), {
          toolName,
          ...input,
          state: isReady ? 'input-available' : 'input-streaming',
        });
        break;
      }
      case 'tool-output-available':
        settle(chunk.toolCallId, { state: 'output-available', output: chunk.output }, true);
        break;
      case 'tool-output-error':
        settle(chunk.toolCallId, { state: 'output-error', errorText: chunk.errorText }, true);
        break;
      case 'tool-output-denied':
        settle(chunk.toolCallId, { state: 'output-denied' }, false);
        break;
      case 'tool-approval-request': {
        const { approvalId: id, approvalDescriptor: descriptor } = chunk;
        const approval = descriptor === undefined ? { id } : { id, descriptor };
        Object.assign(toolOf(chunk.toolCallId), { state: 'approval-requested', approval });
        break;
      }
      case 'finish-step':
      case 'tool-input-delta':
      case 'error':
        break;
      default:
        if (!chunk.transient) parts.push({ type: chunk.type, id: chunk.id, data: chunk.data });
    }
  }
  return { metadata, parts };
}
