import { appendFileSync } from 'node:fs';
import { LocalToolProvider, type ToolProvider, tool } from 'millrace';
import type { LLMStep } from 'millrace/testing';

/** What the model asks for: two calls that finish and two that are interrupted. */
export const batch: LLMStep = {
  toolCalls: [{ name: 'book' }, { name: 'mail' }, { name: 'pay' }, { name: 'look' }],
};

/**
 * Four tools that write into a file what they did to the world. `pay` and `look` hang where they are told to; `look` may run again,
 * `pay` may not.
 */
export function batchTools(worldPath: string, { hangs }: { readonly hangs: boolean }): ToolProvider {
  const parameters = { type: 'object', properties: {} } as const;
  const act = (name: string, isSlow: boolean) => async () => {
    appendFileSync(worldPath, `${name}\n`);
    if (isSlow && hangs) await new Promise(() => setInterval(() => {}, 60_000));
    return `${name} done`;
  };
  return new LocalToolProvider([
    tool({ name: 'book', description: 'Books.', parameters, execute: act('book', false) }),
    tool({ name: 'mail', description: 'Mails.', parameters, execute: act('mail', false) }),
    tool({ name: 'pay', description: 'Pays.', parameters, execute: act('pay', true) }),
    tool({
      name: 'look',
      description: 'Looks.',
      parameters,
      readOnly: true,
      onInDoubt: 'retry',
      execute: act('look', true),
    }),
  ]);
}
