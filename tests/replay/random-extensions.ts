import fc from 'fast-check';
import type { Extension } from 'millrace';
import type { StepChange } from 'millrace/types';
import { plainTools } from '../core/plain-tools.ts';

const hooks = [
  'beforeTurn',
  'prepareIteration',
  'afterLLMCall',
  'beforeToolCall',
  'afterToolCall',
  'beforeFinish',
  'afterIteration',
  'afterTurn',
] as const;

type Hook = (typeof hooks)[number];

/** What one extension does at one hook of one iteration. */
interface Deed {
  readonly hook: Hook;
  readonly iteration: number;
  readonly kind: 'data' | 'message' | 'settings' | 'add' | 'remove' | 'finish' | 'fail' | 'throw' | 'result' | 'view';
}

/** What extensions do in one turn, and whether they answer at once; before a tool they do: for how long a call waits is not recorded. */
export interface RandomExtensions {
  readonly deeds: readonly (readonly Deed[])[];
  readonly later: boolean;
}

const deed: fc.Arbitrary<Deed> = fc.record({
  hook: fc.constantFrom(...hooks),
  iteration: fc.integer({ min: 0, max: 3 }),
  kind: fc.oneof(
    {
      weight: 8,
      arbitrary: fc.constantFrom('data' as const, 'message', 'settings', 'add', 'remove', 'result', 'view'),
    },
    { weight: 1, arbitrary: fc.constantFrom('finish' as const, 'fail', 'throw') },
  ),
});

export const randomExtensions: fc.Arbitrary<RandomExtensions> = fc.record({
  deeds: fc.array(fc.array(deed, { maxLength: 4 }), { minLength: 1, maxLength: 3 }),
  later: fc.boolean(),
});

const message = { role: 'user', content: 'By the way.' } as const;
const hidden = plainTools({ spare: { hidden: true, execute: () => 'spare' } });

/** The extensions, each doing its deeds where it comes by them. */
export function extensionsOf({ deeds, later }: RandomExtensions): readonly Extension[] {
  return deeds.map((own, index) =>
    extensionOf(`x${index}`, own, { later, toolProviders: index === 0 ? [hidden] : [] }),
  );
}

function extensionOf(
  name: string,
  deeds: readonly Deed[],
  { later, ...rest }: Pick<Extension, 'toolProviders'> & { readonly later: boolean },
): Extension {
  const at = (hook: Hook, iteration: number) => {
    const kinds = deeds.filter((each) => each.hook === hook && each.iteration === iteration).map(({ kind }) => kind);
    if (kinds.includes('throw')) throw new Error(`${name} broke`);
    const change = changeOf(name, hook, kinds);
    return later && hook !== 'beforeToolCall' ? Promise.resolve(change) : change;
  };
  return {
    name,
    ...rest,
    ...(has(deeds, 'beforeTurn') && { beforeTurn: ({ iteration }) => at('beforeTurn', iteration) }),
    ...(has(deeds, 'prepareIteration') && {
      prepareIteration: (_view, { iteration }) => at('prepareIteration', iteration),
    }),
    ...(has(deeds, 'afterLLMCall') && { afterLLMCall: (_response, { iteration }) => at('afterLLMCall', iteration) }),
    ...(has(deeds, 'beforeToolCall') && { beforeToolCall: ({ iteration }) => at('beforeToolCall', iteration) }),
    ...(has(deeds, 'afterToolCall') && { afterToolCall: ({ iteration }) => at('afterToolCall', iteration) }),
    ...(has(deeds, 'beforeFinish') && { beforeFinish: ({ iteration }) => at('beforeFinish', iteration) }),
    ...(has(deeds, 'afterIteration') && { afterIteration: ({ iteration }) => at('afterIteration', iteration) }),
    ...(has(deeds, 'afterTurn') && { afterTurn: ({ iteration }) => at('afterTurn', iteration) }),
  };
}

function has(deeds: readonly Deed[], hook: Hook): boolean {
  return deeds.some((each) => each.hook === hook);
}

/** Only what the hook may change. */
function changeOf(name: string, hook: Hook, kinds: readonly Deed['kind'][]): object | undefined {
  if (kinds.length === 0) return undefined;
  if (kinds.includes('fail')) return { fail: { code: 'LIMIT', message: `${name} has had enough.`, reason: 'enough' } };
  if (hook === 'beforeToolCall') return callChange(kinds);
  if (hook === 'afterTurn') return { text: `${name} says so.`, ...(kinds.includes('finish') && { value: name }) };
  const data = kinds.includes('data') ? { data: { by: name, hook } } : {};
  if (hook === 'afterLLMCall') return data;
  const finish = kinds.includes('finish') ? { finish: { value: name } } : {};
  if (hook === 'prepareIteration')
    return { ...data, ...finish, ...(kinds.includes('view') && { view: { tools: ['soon'] } }) };
  const messages = kinds.includes('message') ? { messages: [message] } : {};
  if (hook === 'afterToolCall') {
    return { ...data, ...finish, ...messages, ...(kinds.includes('result') && { result: { content: name } }) };
  }
  const settings = kinds.includes('settings') ? { settings: { systemPrompt: `As ${name}.`, temperature: 0.1 } } : {};
  if (hook === 'beforeFinish') return { ...data, ...finish, ...messages, ...settings };
  return { ...data, ...finish, ...messages, ...settings, ...toolsOf(kinds) };
}

function callChange(kinds: readonly Deed['kind'][]): object | undefined {
  if (kinds.includes('remove')) return { deny: 'not today' };
  if (kinds.includes('result')) return { answer: { content: 'made up' } };
  return kinds.includes('data') ? { arguments: { of: 'pears' } } : undefined;
}

function toolsOf(kinds: readonly Deed['kind'][]): Pick<StepChange, 'tools'> {
  const add = kinds.includes('add') ? { add: ['spare'] } : {};
  const remove = kinds.includes('remove') ? { remove: ['instant'] } : {};
  return 'add' in add || 'remove' in remove ? { tools: { ...add, ...remove } } : {};
}
