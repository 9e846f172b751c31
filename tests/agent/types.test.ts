import { expect, it } from '@jest/globals';
import { agent, type JSONSchema, type TurnResult, team } from 'millrace';
import { Agent, Replay, StructuredOutput, Team, Turn } from 'millrace/internals';
import { scriptedLLM } from 'millrace/testing';
import { z } from 'zod';
import { same } from '../same-type.ts';

type ValueOf<R> = R extends Promise<TurnResult<infer T>> ? T : never;

interface Weather {
  city: string;
  celsius: number;
}

const outputSchema = z.object({ city: z.string(), celsius: z.string().transform(Number) });
const oslo = { toolCalls: [{ name: '__finish__', arguments: { city: 'Oslo', celsius: '4' } }] };
const forecaster = () => agent({ provider: scriptedLLM([oslo]), outputSchema });

it('the value of a turn has the output type of the schema, where the turn has one', async () => {
  const ada = forecaster();
  expect(same<typeof ada, Agent<Weather, unknown, never>>(true)).toBe(true);
  expect(same<ReturnType<typeof ada.startTurn>, Turn<Weather, never>>(true)).toBe(true);
  expect(same<ReturnType<typeof ada.resume>, Turn<Weather, never>>(true)).toBe(true);
  const { value } = await ada.run('How cold is it in Oslo?');
  expect(same<typeof value, Weather | undefined>(true)).toBe(true);
  // @ts-expect-error: the schema has no such member.
  expect([value?.celsius, value?.fahrenheit]).toEqual([4, undefined]);
});

it('the value has the type that a literal JSON Schema describes; it is unknown with any JSON Schema', () => {
  const plain = agent({ provider: scriptedLLM([]) });
  const described = agent({
    provider: scriptedLLM([]),
    outputSchema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  });
  const some: JSONSchema = { type: 'object' };
  const any = agent({ provider: scriptedLLM([]), outputSchema: some });
  expect(same<typeof plain, Agent<undefined, unknown, never>>(true)).toBe(true);
  expect(same<typeof described, Agent<{ readonly city: string }, unknown, never>>(true)).toBe(true);
  expect(same<typeof any, Agent<unknown, unknown, never>>(true)).toBe(true);
  expect(same<ValueOf<ReturnType<typeof plain.run>>, undefined>(true)).toBe(true);
});

it('an agent with other options keeps the type, unless they have a schema', () => {
  const ada = forecaster();
  const renamed = ada.with({ contextId: 'c' });
  const counting = ada.with({ outputSchema: z.object({ count: z.number() }) });
  const some: Partial<Agent['options']> = {};
  const unsure = ada.with(some);
  expect(same<typeof renamed, Agent<Weather, unknown, never>>(true)).toBe(true);
  expect(same<typeof counting, Agent<{ count: number }, unknown, never>>(true)).toBe(true);
  expect(same<typeof unsure, Agent>(true)).toBe(true);
});

it('an agent with a type of its values is an agent, and its turn a turn', () => {
  const agents: readonly Agent[] = [forecaster()];
  const turn: Turn = forecaster().startTurn('How cold is it in Oslo?');
  expect([agents.length, turn.state]).toEqual([1, undefined]);
});

it('agents, teams, turns and replays are made by their functions, and show nothing of how they work together', () => {
  const ada = forecaster();
  expect(same<Parameters<typeof ada.with>['length'], 1>(true)).toBe(true);
  // @ts-expect-error: its constructor is private.
  expect(() => new Agent()).toThrow();
  // @ts-expect-error: its constructor is private.
  expect(() => new Team()).toThrow();
  // @ts-expect-error: its constructor is private.
  expect(() => new StructuredOutput()).toThrow();
  // @ts-expect-error: its constructor is private.
  expect(() => new Turn()).toThrow();
  // @ts-expect-error: its constructor is private.
  expect(() => new Replay()).toThrow();
});

it('T-13 the value of a team is the union of what its agents finish with', async () => {
  const ada = forecaster();
  const count = agent({ id: 'count', provider: scriptedLLM([]), outputSchema: z.object({ count: z.number() }) });
  const both = team({ agents: [ada, count] });
  expect(same<typeof both, Team<Weather | { count: number }, never>>(true)).toBe(true);
  const { value } = await both.ask('How cold is it in Oslo?');
  expect(same<typeof value, Weather | { count: number } | undefined>(true)).toBe(true);
  expect(value).toEqual({ city: 'Oslo', celsius: 4 });
  const some: readonly Agent[] = [ada, count];
  const any = team({ agents: some });
  expect(same<typeof any, Team>(true)).toBe(true);
});
