import { agent, InMemoryStateStore, tool } from 'millrace';
import { type ScriptedLLMStep, scriptedLLM } from 'millrace/testing';
import { type UIMessageHandlerOptions, uiMessageHandler } from 'millrace/ui';
import { ChatClient, chunksOf, scopeOf } from './chat-client.ts';
import { type FoldedMessage, foldedOf } from './fold-ui-message.ts';

interface Made {
  readonly store?: InMemoryStateStore;
  readonly options?: Partial<UIMessageHandlerOptions>;
  readonly agent?: object;
}

/** A handler of an agent with a tool that needs approval and one that asks, and a client of it. */
export function made(
  steps: readonly ScriptedLLMStep[],
  { store = new InMemoryStateStore(), options, agent: more }: Made = {},
) {
  let runs = 0;
  const refund = tool({
    name: 'refund',
    description: 'Refunds.',
    parameters: { type: 'object' },
    needsApproval: true,
    execute: () => `refund ${++runs}`,
  });
  const asks = tool({
    name: 'asks',
    description: 'Asks.',
    parameters: { type: 'object' },
    execute: (_, { ask }) => `was told ${ask({ prompt: 'Where to?' })}`,
  });
  const model = scriptedLLM(steps);
  const bo = agent({ id: 'bo', provider: model, tools: [refund, asks], taskStateStore: store, retry: null, ...more });
  const handler = uiMessageHandler({
    agent: bo,
    scopeOf,
    onDisconnect: 'continue',
    recoverEveryMs: 0,
    tools: 'full',
    ...options,
  });
  return { bo, store, model, handler, client: new ChatClient(handler), runs: () => runs };
}

export const folded = async (response: Response, message?: FoldedMessage) =>
  foldedOf(await chunksOf(response), message);
export const call = (name: string) => ({ toolCalls: [{ name }] });
export const idOf = (message: FoldedMessage) => message.parts.find(({ approvalId }) => approvalId)?.approvalId ?? '';
