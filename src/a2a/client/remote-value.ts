import type { AssistantMessage, Extension } from '../../core/contracts/index.ts';

const key = 'a2a';

/** The last message of a remote turn, with the value that it ended with, if any. */
export function withValue(message: AssistantMessage, value: unknown): AssistantMessage {
  return value === undefined ? message : { ...message, metadata: { [key]: { value } } };
}

/** Ends the turn with the value of the remote one. */
export function remoteValue(): Extension {
  return {
    name: 'remote-value',
    beforeFinish({ state, text, reason }) {
      const held: unknown = state.messages.at(-1)?.metadata?.[key];
      if (typeof held !== 'object' || held === null || !('value' in held)) return undefined;
      return { finish: { text, reason, value: held.value } };
    },
  };
}
