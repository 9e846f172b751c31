import type { AssistantMessage, Extension, HookContext, Message } from '../core/contracts/index.ts';

/** Changes of messages on their way; what they give back is what models, stores and listeners get. */
export interface Interceptors {
  /** What the user says, before anything else has it. */
  readonly outgoing?: (
    messages: readonly Message[],
    context: HookContext,
  ) => readonly Message[] | Promise<readonly Message[]>;
  /** An answer without calls, before it is recorded. What was streamed of it has been shown. */
  readonly incoming?: (message: AssistantMessage, context: HookContext) => AssistantMessage | Promise<AssistantMessage>;
}

export function interceptors({ outgoing, incoming }: Interceptors): Extension {
  return {
    name: 'interceptors',
    ...(outgoing && {
      beforeTurn: async (context) => ({ given: await outgoing(context.state.messages, context) }),
    }),
    ...(incoming && {
      async afterLLMCall(response, context) {
        const { message, toolCalls = [] } = response;
        if (message.role !== 'assistant' || toolCalls.length > 0 || (message.toolCalls ?? []).length > 0)
          return undefined;
        return { response: { ...response, message: await incoming(message, context) } };
      },
    }),
  };
}
