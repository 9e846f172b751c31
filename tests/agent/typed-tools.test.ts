import { expect, it } from '@jest/globals';
import {
  type Agent,
  type AgentEvent,
  agent,
  contentParts,
  type Extension,
  inParallel,
  inSequence,
  limits,
  parseContent,
  router,
  structuredOutput,
  supervisor,
  type Team,
  type Tool,
  type ToolProvider,
  type Turn,
  team,
  tool,
  type ValueExtension,
} from 'millrace';
import { scriptedLLM } from 'millrace/testing';
import type { ContentOf, JsonContent, Recorded, StepOf, StepResult } from 'millrace/types';
import { z } from 'zod';
import { same } from '../same-type.ts';

const weather = tool({
  name: 'weather',
  description: 'Gives the weather of a city.',
  parameters: z.object({ city: z.string(), at: z.iso.date().transform((text) => new Date(text)) }),
  execute: async ({ city }) => ({ city, celsius: 4 }),
});
const greet = tool({
  name: 'greet',
  description: 'Greets.',
  parameters: { type: 'object', properties: { who: { type: 'string' } }, required: ['who'] },
  execute: ({ who }) => `Hello ${who}.`,
});
const calls = [
  { name: 'weather', arguments: { city: 'Oslo', at: '2030-01-01' } },
  { name: 'greet', arguments: { who: 'Ada' } },
];
const ada = () =>
  agent({ id: 'ada', provider: scriptedLLM([{ toolCalls: calls }, { text: 'Done.' }]), tools: [weather, greet] });
/** What `startTurn(input)` of a team gives; `ReturnType` reads the last overload only. */
type Started<A> = A extends Team<infer T, infer X, infer _> ? Turn<T, X> : never;
type Weather = { readonly city: string; readonly celsius: number };
type ToolOf<A> = A extends Agent<infer _, infer __, infer X> ? X : never;
type ValueIn<X extends { result(): Promise<unknown> }> =
  Extract<Awaited<ReturnType<X['result']>>, { status: 'completed' }> extends {
    readonly value: infer V;
  }
    ? V
    : never;

/** What a reader of a turn makes of its tool calls, by their names. */
function told(event: AgentEvent<typeof weather | typeof greet>): string | undefined {
  if (event.kind === 'internal:tool-start') {
    switch (event.toolName) {
      case 'weather':
        // @ts-expect-error: there is no such argument.
        return `${event.arguments.city} ${typeof event.arguments.at} ${event.arguments.town}`;
      case 'greet':
        return event.arguments.who.toUpperCase();
      default:
        return event.toolName satisfies string;
    }
  }
  if (event.kind !== 'internal:tool-complete') return undefined;
  if (!event.success) {
    expect(same<typeof event.arguments, unknown>(true)).toBe(true);
    return 'failed';
  }
  if (event.toolName === 'weather') {
    const { celsius } = parseContent(event.content);
    expect(same<typeof celsius, number>(true)).toBe(true);
    return `${event.arguments.city}: ${celsius}`;
  }
  if (event.toolName === 'greet') return event.content.toUpperCase();
  return undefined;
}

it('U-13 a tool tells its name, its arguments and what it returns', () => {
  expect(same<typeof greet, Tool<{ readonly who: string }, unknown, 'greet', string>>(true)).toBe(true);
  expect(same<(typeof weather)['definition']['function']['name'], 'weather'>(true)).toBe(true);
  const many = tool({ name: 'many', description: 'Many.', parameters: z.object({}), executeBatch: () => ({}) });
  expect(same<typeof many, Tool<Record<string, never>, unknown, 'many', unknown>>(true)).toBe(true);
});

it('U-13 events of a turn, of an agent and of a team have the types of the tool that they name', async () => {
  const one = ada();
  expect(same<typeof one, Agent<undefined, unknown, typeof weather | typeof greet>>(true)).toBe(true);
  const seen: string[] = [];
  const heard: string[] = [];
  one.on('internal:tool-start', (event) => {
    if (event.toolName === 'greet') heard.push(event.arguments.who);
  });
  const turn = one.startTurn('Go.');
  for await (const event of turn) seen.push(told(event) ?? '');
  expect(seen.filter((line) => line !== '').sort()).toEqual(['ADA', 'HELLO ADA.', 'Oslo object undefined', 'Oslo: 4']);
  expect(heard).toEqual(['Ada']);
  const plain = agent({ id: 'plain', provider: scriptedLLM([]) });
  const both = team({ agents: [ada(), plain] });
  const shown: string[] = [];
  both.on('tool:called', (event) => {
    if (event.tool === 'greet') shown.push(event.arguments.who);
  });
  both.on('tool:result', (event) => {
    if (event.success && event.tool === 'weather') shown.push(`${parseContent(event.content).celsius}`);
  });
  await both.ask('Go.');
  expect(shown).toEqual(['Ada', '4']);
});

it('U-13 tools of dependencies, of a variant, and of a context are typed, too', () => {
  const dependent = agent({
    provider: scriptedLLM([]),
    dependencies: { shop: 7 },
    tools: ({ shop }) => [...(shop === 7 ? [weather] : []), greet],
  });
  expect(same<ToolOf<typeof dependent>, typeof weather | typeof greet>(true)).toBe(true);
  const variant = ada().with({ tools: [greet] });
  expect(same<ToolOf<typeof variant>, typeof greet>(true)).toBe(true);
  const renamed = ada().with({ name: 'bo' });
  expect(same<ToolOf<typeof renamed>, typeof weather | typeof greet>(true)).toBe(true);
  interface Shop {
    readonly till: number;
  }
  const till = tool<Shop>()({
    name: 'till',
    description: 'Tells the till.',
    parameters: z.object({}),
    execute: (_, { context }) => context.till,
  });
  const clerk = agent<Shop>()({ provider: scriptedLLM([]), tools: [till] });
  expect(same<ToolOf<typeof clerk>['definition']['function']['name'], 'till'>(true)).toBe(true);
});

it('U-13 tools whose names are not known leave the events as they are', () => {
  const provider: ToolProvider = { getTools: () => [], executeTool: () => Promise.reject(new Error('none')) };
  const mixed = agent({ provider: scriptedLLM([]), tools: [weather], toolProviders: [provider] });
  const some: readonly Tool[] = [weather];
  const wide = agent({ provider: scriptedLLM([]), tools: some });
  const added = ada().with({ toolProviders: [provider] });
  for (const each of [mixed, wide, added]) expect(same<ToolOf<typeof each>, Tool>(true)).toBe(true);
  expect(same<AgentEvent<Tool>, AgentEvent>(true)).toBe(true);
  const asAgent: Agent = ada();
  const turn: Turn = ada().startTurn('Go.');
  expect([asAgent.id, turn.state]).toEqual(['ada', undefined]);
});

type Known = typeof weather | typeof greet;

/** What an extension makes of the results of a step, by the names of their tools. */
function celsiusIn({ results }: Pick<StepOf<Known>, 'results'>): readonly number[] {
  return results.flatMap((result) => {
    if (result.toolName !== 'weather') return [];
    if (!result.success) {
      expect(same<typeof result.arguments, unknown>(true)).toBe(true);
      return [];
    }
    // @ts-expect-error: there is no such argument.
    expect(result.arguments.town).toBeUndefined();
    expect(result.arguments.city).toBe('Oslo');
    return [parseContent(result.content).celsius];
  });
}

it('U-13 calls and results of a step have the types of the tools that the extension is declared with', async () => {
  const seen: unknown[] = [];
  const watching: Extension<StepOf<Known>> = {
    name: 'watching',
    afterIteration(step) {
      for (const { toolName } of step.calls) {
        // @ts-expect-error: no tool has that name.
        expect(toolName === 'wether').toBe(false);
        seen.push(toolName);
      }
      seen.push(...celsiusIn(step));
    },
  };
  const one = agent({
    provider: scriptedLLM([{ toolCalls: calls }, { text: 'Done.' }]),
    tools: [weather, greet],
    extensions: [watching],
  });
  expect(same<typeof one, Agent<undefined, unknown, Known>>(true)).toBe(true);
  await one.run('Go.');
  expect(seen).toEqual(['weather', 'greet', 4]);
  const plain = agent({ provider: scriptedLLM([]), tools: [greet] });
  // @ts-expect-error: the agent has tools that the extension does not know.
  const other = () => agent({ provider: scriptedLLM([]), tools: [weather], extensions: [onlyGreets] });
  expect([plain.id, typeof other]).toEqual([plain.id, 'function']);
});

const onlyGreets: Extension<StepOf<typeof greet>> = {
  name: 'only-greets',
  afterIteration: ({ results }) => void results.map(({ toolName }) => toolName),
};

it('U-13 a step of an extension in the options of an agent has the types of the agent’s tools', async () => {
  const seen: unknown[] = [];
  const one = agent({
    provider: scriptedLLM([{ toolCalls: calls }, { text: 'Done.' }]),
    tools: [weather, greet],
    extensions: [
      {
        name: 'watching',
        afterIteration(step) {
          expect(same<typeof step, StepOf<Known>>(true)).toBe(true);
          seen.push(...celsiusIn(step));
        },
      },
    ],
  });
  expect(same<typeof one, Agent<undefined, unknown, Known>>(true)).toBe(true);
  await one.run('Go.');
  expect(seen).toEqual([4]);
});

it('U-13 a step is of any tools where their names are not known', () => {
  const provider: ToolProvider = { getTools: () => [], executeTool: () => Promise.reject(new Error('none')) };
  const mixed = agent({
    provider: scriptedLLM([]),
    tools: [weather],
    toolProviders: [provider],
    extensions: [
      {
        name: 'watching',
        afterIteration(step) {
          expect(same<(typeof step.results)[number], StepResult>(true)).toBe(true);
          expect(same<(typeof step.calls)[number]['toolName'], string>(true)).toBe(true);
        },
      },
    ],
  });
  expect(same<ToolOf<typeof mixed>, Tool>(true)).toBe(true);
  const plain: Extension = { name: 'plain', afterIteration: ({ results }) => void results.length };
  const typed: Extension<StepOf<Known>> = plain;
  expect(typed.name).toBe('plain');
});

it('U-13 the content of a result has the type that the tool returns, as its JSON', () => {
  expect(same<ContentOf<Weather>, JsonContent<Weather>>(true)).toBe(true);
  expect(same<ContentOf<readonly number[]>, JsonContent<readonly number[]>>(true)).toBe(true);
  expect(same<ContentOf<string>, string>(true)).toBe(true);
  expect(same<ContentOf<Date>, ContentOf<unknown>>(true)).toBe(true);
  expect(same<ContentOf<ReturnType<typeof contentParts>>, ContentOf<unknown>>(true)).toBe(true);
  expect(
    same<Recorded<{ at: Date; all: Map<string, number> }>, { readonly at: Date | string; readonly all: unknown }>(true),
  ).toBe(true);
  const replaced: JsonContent<Weather> = '[hidden]';
  expect(() => parseContent(replaced)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }));
  expect(contentParts([{ type: 'text', text: '' }])).toBeDefined();
});

const outputSchema = z.object({ city: z.string(), celsius: z.number() });
const forecaster = () =>
  agent({
    id: 'forecaster',
    provider: scriptedLLM([{ toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo', celsius: 4 } }] }]),
    outputSchema,
  });
const talker = (text = 'Hello.') => agent({ id: 'talker', provider: scriptedLLM([{ text }]) });
type Forecast = { city: string; celsius: number };

it('U-13 the value of an agent is undefined without a schema, and that of an extension which gives one', async () => {
  const plain = agent({ provider: scriptedLLM([{ text: 'Hi.' }]), extensions: [limits({ maxToolCalls: 1 })] });
  expect(same<typeof plain, Agent<undefined, unknown, never>>(true)).toBe(true);
  expect((await plain.run('Hi.')).value).toBeUndefined();
  const typed = agent({
    provider: scriptedLLM([{ toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo', celsius: 4 } }] }]),
    extensions: [limits({ maxToolCalls: 9 }), structuredOutput({ schema: outputSchema })],
  });
  expect(same<typeof typed, Agent<Forecast, unknown, never>>(true)).toBe(true);
  expect((await typed.run('Go.')).value).toEqual({ city: 'Oslo', celsius: 4 });
  const lucky: ValueExtension<number> = { name: 'lucky', afterTurn: () => ({ value: 7 }) };
  const numbered = agent({ provider: scriptedLLM([{ text: 'Seven.' }]), extensions: [lucky] });
  expect(same<ValueIn<ReturnType<typeof numbered.startTurn>>, number>(true)).toBe(true);
  expect((await numbered.run('Go.')).value).toBe(7);
});

it('U-13 the value of a team is that of its agents, one without a schema among them', async () => {
  const both = team({ agents: [talker(), forecaster()], handOff: true });
  expect(same<Started<typeof both>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const { value } = await both.ask('Where?', { agentId: 'forecaster' });
  expect(value?.celsius).toBe(4);
  const routed = team({ agents: [talker(), forecaster()], routing: router('talker') });
  expect(same<Started<typeof routed>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const chosen = team({ agents: [talker(), forecaster()], routing: { choose: async ({ current }) => current.id } });
  expect(same<Started<typeof chosen>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const some: readonly Agent[] = [talker()];
  const any = team({ agents: some });
  expect(same<Started<typeof any>, Turn>(true)).toBe(true);
});

it('U-13 the value of a sequence is that of its last agent, of agents in parallel that of the joiner', async () => {
  const [first, last] = [talker(), forecaster()];
  const sequence = team({ agents: [first, last], routing: inSequence([first, last]) });
  expect(same<Started<typeof sequence>, Turn<Forecast, never>>(true)).toBe(true);
  const turn = sequence.startTurn('Where?');
  expect(same<typeof turn, Turn<Forecast, never>>(true)).toBe(true);
  expect((await turn.result()).value?.celsius).toBe(4);
  const named = () => sequence.startTurn('1', { agentId: 'talker' });
  expect(same<ReturnType<typeof named>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const byIds = team({ agents: [talker(), forecaster()], routing: inSequence(['talker', 'forecaster']) });
  expect(same<Started<typeof byIds>, Turn<Forecast | undefined, never>>(true)).toBe(true);

  const [asked, judge] = [talker(), forecaster()];
  const joined = team({ agents: [asked, judge], routing: inParallel([asked], { joiner: judge }) });
  expect(same<Started<typeof joined>, Turn<Forecast, never>>(true)).toBe(true);
  expect((await joined.ask('Where?')).value).toEqual({ city: 'Oslo', celsius: 4 });
  const [a, b] = [talker('A.'), forecaster()];
  const texts = team({ agents: [a, b], routing: inParallel([a]) });
  expect(same<Started<typeof texts>, Turn<undefined, never>>(true)).toBe(true);
  expect(await texts.ask('Where?')).toMatchObject({ text: 'A.', value: undefined });
});

it('U-13 the value of a supervised team is that of the supervisor, where it may not hand the turn over', async () => {
  const [lead, helper] = [forecaster(), talker()];
  const led = team({ agents: [lead, helper], routing: supervisor(lead, { mayHandOff: false }) });
  expect(same<Started<typeof led>, Turn<Forecast, never>>(true)).toBe(true);
  expect((await led.ask('Where?')).value).toEqual({ city: 'Oslo', celsius: 4 });
  const free = team({ agents: [lead, helper], routing: supervisor(lead) });
  expect(same<Started<typeof free>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const handing = team({ agents: [lead, helper], handOff: true, routing: supervisor(lead, { mayHandOff: false }) });
  expect(same<Started<typeof handing>, Turn<Forecast | undefined, never>>(true)).toBe(true);
  const counting = agent({ provider: scriptedLLM([]), outputSchema: z.object({ n: z.number() }) });
  // @ts-expect-error: its turns would end with a value of another type.
  const wrong = () => led.registerAgent(counting);
  led.registerAgent(agent({ id: 'more', provider: scriptedLLM([]) }));
  expect(typeof wrong).toBe('function');
});
