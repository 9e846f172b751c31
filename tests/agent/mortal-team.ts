import type { LLMProvider, Message, MessageStore, ToolCall } from 'millrace';
import type { Life } from '../crash/workload/life.ts';

/** The same store, whose process may die before and after a call. */
export function mortalMessages(store: MessageStore, life: Life): MessageStore {
  const mortal =
    <A extends unknown[], T>(method: (...args: A) => T | Promise<T>) =>
    async (...args: A): Promise<T> => {
      await life.reach('messages:before');
      const value = await method.apply(store, args);
      await life.reach('messages:answered');
      return value;
    };
  return {
    begin: mortal(store.begin),
    append: mortal<Parameters<MessageStore['append']>, { readonly appended: boolean }>(store.append),
    load: mortal(store.load),
    setAgent: mortal(store.setAgent),
    setMetadata: mortal(store.setMetadata),
    list: (...args) => store.list(...args),
    contexts: (...args) => store.contexts(...args),
    delete: (...args) => store.delete(...args),
  };
}

/** Answers by what is said last, so that any process gets the same. */
export function model(next: (last: Message) => { readonly call: string; readonly args: object } | string): LLMProvider {
  return {
    async call({ messages }) {
      const last = messages.at(-1);
      const step = last ? next(last) : 'Nothing was said.';
      if (typeof step === 'string') return { message: { role: 'assistant', content: step } };
      const call: ToolCall = {
        id: `${step.call}-${messages.length}`,
        type: 'function',
        function: { name: step.call, arguments: JSON.stringify(step.args) },
      };
      return { message: { role: 'assistant', content: null, toolCalls: [call] } };
    },
  };
}
