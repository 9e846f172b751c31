import { Script } from 'node:vm';
import { describe, expect, it, jest } from '@jest/globals';
import {
  AgentLoop,
  type AgentLoopConfig,
  agent,
  agentTools,
  branch,
  ClientToolProvider,
  eagerTools,
  InMemoryMessageStore,
  type JSONSchema,
  LocalToolProvider,
  type Logger,
  replay,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolPolicy,
  type ToolProvider,
  team,
  tool,
} from 'millrace';
import { type ArgumentChecks, jsonSchemaChecks } from 'millrace/internals';
import { operatorTurn } from 'millrace/operators';
import type { LLMStep } from 'millrace/testing';
import type { IterationStep, TurnRecord } from 'millrace/types';
import { answerOf, deadTurn, firstCall, question } from '../core/dead-turn.ts';
import { turnBench } from '../core/turn-bench.ts';

const bench = turnBench();

const parameters = {
  type: 'object',
  properties: { euros: { type: 'number' }, to: { type: 'string' } },
  required: ['euros', 'to'],
  additionalProperties: false,
} as const;

const wrong = { euros: '5', to: 'Ada' };
const right = { euros: 5, to: 'Ada' };
const words = 'arguments.euros must be number';

/** A provider as the core document has it: definitions made anew for each turn, arguments read from the call. */
class Bank implements ToolProvider {
  readonly received: unknown[] = [];
  readonly #parameters: JSONSchema;
  readonly #policy: ToolPolicy;

  constructor(schema: JSONSchema = parameters, policy: ToolPolicy = {}) {
    this.#parameters = schema;
    this.#policy = policy;
  }

  async getTools() {
    const schema: JSONSchema = JSON.parse(JSON.stringify(this.#parameters));
    const described = { name: 'pay', description: 'Pays.', parameters: schema };
    return [{ ...this.#policy, type: 'function' as const, function: described }];
  }

  async executeTool(call: ToolCall, _context: ToolContext) {
    this.received.push(JSON.parse(call.function.arguments));
    return { toolCallId: call.id, content: 'paid', success: true };
  }
}

const calls = (args: object = wrong): LLMStep => ({ toolCalls: [{ name: 'pay', arguments: args }] });

/** What the model reads where it calls wrongly first and then rightly. */
async function told(config: Partial<AgentLoopConfig>, steps: readonly LLMStep[] = [calls(), calls(right)]) {
  const model = bench.model([...steps, { text: 'Done.' }]);
  const turn = new AgentLoop(bench.config(model, config)).startTurn(question);
  const { messages } = await turn.result();
  return messages.flatMap((message) => (message.role === 'tool' ? [message.content] : []));
}

describe('a provider whose definitions bring no check', () => {
  it('U-18 receives no wrong type: the model is told what its schema says', async () => {
    const bank = new Bank();
    expect(await told({ toolProviders: [bank] })).toEqual([expect.stringContaining(words), 'paid']);
    expect(bank.received).toEqual([right]);
  });

  it.each<readonly [string, (bank: Bank) => Partial<AgentLoopConfig>]>([
    ['comes with an extension', (bank) => ({ extensions: [{ name: 'x', toolProviders: [bank] }] })],
    [
      'is wrapped by eagerTools',
      (bank) => {
        const { toolProvider, extension } = eagerTools(bank);
        return { toolProviders: [toolProvider], extensions: [extension] };
      },
    ],
  ])('U-18 receives none where it %s', async (_, options) => {
    const bank = new Bank(parameters, { readOnly: true });
    const answers = await told(options(bank));
    expect(answers).toEqual([expect.stringContaining(words), 'paid']);
    expect(bank.received).toEqual([right]);
  });

  it('U-18 receives none where an extension adds it in the middle of a turn, and none from a hook', async () => {
    const bank = new Bank();
    const definitions = await bank.getTools();
    const added: ToolProvider = { getTools: () => definitions, executeTool: (...given) => bank.executeTool(...given) };
    const extensions = [
      {
        name: 'adder',
        afterIteration: ({ iteration }: { iteration: number }) =>
          iteration === 1 ? { tools: { add: [added] } } : undefined,
        beforeToolCall: ({ iteration }: { iteration: number }) => (iteration === 3 ? { arguments: wrong } : undefined),
      },
    ];
    const steps = [calls(right), calls(), calls(right), calls(right)];
    expect(await told({ extensions }, steps)).toEqual([
      expect.stringContaining('not known'),
      expect.stringContaining(words),
      expect.stringContaining(words),
      'paid',
    ]);
    expect(bank.received).toEqual([right]);
  });

  it('U-18 receives none from an agent, from a sub-agent, after a hand-off and in a branch', async () => {
    const bank = new Bank();
    const { clock } = bench;
    const wrongOnce = [calls(), { text: 'Done.' }];
    const model = bench.model([...wrongOnce, ...wrongOnce, ...wrongOnce]);
    const clerk = agent({ name: 'clerk', provider: model, toolProviders: [bank], clock });
    const asking = (name: string, args: object, ...more: readonly LLMStep[]) =>
      bench.model([{ toolCalls: [{ name, arguments: args }] }, ...more]);
    const boss = agent({
      name: 'boss',
      provider: asking('clerk', { message: 'Pay.' }, { text: 'Done.' }),
      toolProviders: [agentTools([clerk])],
      clock,
    });
    const desk = agent({ name: 'desk', provider: asking('hand_off', { agentId: 'clerk' }), clock });
    await clerk.startTurn('Pay.').result();
    await boss.startTurn('Pay.').result();
    await team({ agents: [desk, clerk], handOff: true, messageStore: new InMemoryMessageStore(), clock })
      .startTurn('Pay.')
      .result();
    const config = bench.config(bench.model(wrongOnce), { toolProviders: [bank] });
    const branching = {
      name: 'branching',
      afterIteration: async (step: IterationStep) => void (await branch(step, { config, messages: question })),
    };
    await told({ extensions: [branching] }, []);
    expect(bank.received).toEqual([]);
  });

  it('U-18 receives none from a turn that is composed of operators', async () => {
    const model = bench.model([]);
    const { deps, span } = await operatorTurn({ agentId: 'a', llmProvider: model, clock: bench.clock }, question);
    span.end();
    expect(deps.segment.config.argumentChecks).toBe(jsonSchemaChecks);
  });

  it('U-18 receives what is not checked where argumentChecks is null, and what a check of the application lets through', async () => {
    const [bank, other] = [new Bank(), new Bank()];
    expect(await told({ toolProviders: [bank], argumentChecks: null }, [calls()])).toEqual(['paid']);
    const owners: string[] = [];
    const argumentChecks: ArgumentChecks = (_, owner) => {
      owners.push(owner);
      return async () => ({ ok: false, message: 'not today' });
    };
    expect(await told({ toolProviders: [other], argumentChecks }, [calls(right)])).toEqual([
      expect.stringContaining('not today'),
    ]);
    expect([bank.received, other.received, owners]).toEqual([[wrong], [], ['tool "pay" of Bank']]);
  });

  it('U-18 is checked once: not what has a check of its own, as tool() and MCP tools have', async () => {
    const bank = new Bank();
    const [definition] = await bank.getTools();
    const own: ToolProvider = {
      getTools: () => [{ ...definition, checkArguments: (value) => ({ ok: true, value }) } as ToolDefinition],
      executeTool: (...given) => bank.executeTool(...given),
    };
    const made = tool({
      name: 'greet',
      description: 'Greets.',
      parameters: { type: 'object' },
      execute: () => 'hello',
    });
    const argumentChecks: ArgumentChecks = () => {
      throw new Error('asked');
    };
    const toolProviders = [own, new LocalToolProvider([made])];
    const both: LLMStep = { toolCalls: [{ name: 'pay', arguments: wrong }, { name: 'greet' }] };
    expect(await told({ toolProviders, argumentChecks }, [both])).toEqual(['paid', 'hello']);
  });

  it('U-18 is told of a schema that is not one, and so is the log', async () => {
    const lines: unknown[] = [];
    const logger: Logger = {
      debug() {},
      info() {},
      error() {},
      warn: (message, fields) => lines.push([message, fields]),
    };
    const bank = new Bank({ type: 'objekt' });
    expect(await told({ toolProviders: [bank], logger }, [calls(right)])).toEqual([
      expect.stringMatching(/JSON Schema of tool "pay" of Bank is not valid/),
    ]);
    expect(bank.received).toEqual([]);
    expect(lines).toMatchObject([
      ['tool arguments cannot be checked', { tool: 'pay', error: { message: expect.stringContaining('objekt') } }],
    ]);
  });
});

describe('a schema that a provider declares', () => {
  const text = `${'a'.repeat(40)}!`;
  const trap = (name: string) =>
    ({ type: 'object', properties: { [name]: { type: 'string', pattern: '^(a+)+$' } }, required: [name] }) as const;

  it.each<readonly [string, (schema: JSONSchema) => ToolProvider]>([
    ['a provider of the application', (schema) => new Bank(schema)],
    [
      'a client of the turn',
      (parameters) => new ClientToolProvider([{ name: 'pay', description: 'Pays.', parameters }]),
    ],
  ])('H-11 U-18 cannot freeze the process: %s', async (name, providerOf) => {
    const schema = trap(name.replaceAll(' ', '_'));
    const [member] = schema.required;
    const runs = jest.spyOn(Script.prototype, 'runInContext');
    // jest loads modules with it too, without a limit.
    const limited = () =>
      runs.mock.calls.filter(([, options]) => typeof options === 'object' && options.timeout).length;
    const begun: number[] = [];
    for (let turn = 0; turn < 3; turn++) {
      const before = limited();
      const answers = await told({ toolProviders: [providerOf(schema)] }, [calls({ [member as string]: text })]);
      begun.push(limited() - before);
      expect(answers).toEqual([expect.stringContaining('takes more than 500 ms')]);
    }
    runs.mockRestore();
    // A provider that makes its definitions anew for each turn is known again, and not tried a third time.
    expect(begun.map((count) => count > 0)).toEqual([true, true, false]);
  });

  it('H-11 U-18 cannot freeze the process with arguments that it compares with many values', async () => {
    const anyOf = Array.from({ length: 30 }, (_, index) => ({ const: `v${index}` }));
    const schema = { type: 'object', properties: { rows: { items: { anyOf } } } };
    const turn = (rows: readonly unknown[]) => told({ toolProviders: [new Bank(schema)] }, [calls({ rows })]);
    // The first check compiles the schema and has a limit in any case.
    expect(await turn(['v1', 'v2'])).toEqual(['paid']);
    expect(await turn(Array(60_000).fill(1))).toEqual([expect.stringContaining('takes more than 500 ms')]);
    expect(await turn(['v1', 1])).toEqual([expect.stringContaining('arguments.rows[1] must be')]);
  });

  it('U-18 is compiled once where it is made anew for each turn, and forgotten in the end', () => {
    const copy = () => JSON.parse(JSON.stringify(parameters));
    const first = jsonSchemaChecks(copy(), 'one');
    expect(jsonSchemaChecks(copy(), 'one')).toBe(first);
    expect(jsonSchemaChecks(copy(), 'another')).not.toBe(first);
    const shared = copy();
    expect(jsonSchemaChecks(shared, 'one')).not.toBe(jsonSchemaChecks(shared, 'another'));
    for (let index = 0; index < 100; index++) jsonSchemaChecks({ title: `schema ${index}` }, 'one');
    expect(jsonSchemaChecks(copy(), 'one')).not.toBe(first);
  });

  it('U-18 may hold itself', async () => {
    const schema: { type: string; properties: { self?: unknown } } = { type: 'object', properties: {} };
    schema.properties.self = schema;
    await expect(Promise.resolve().then(() => jsonSchemaChecks(schema, 'a ring')({}))).rejects.toThrow();
  });
});

describe('a call that was started before its arguments were checked', () => {
  const asked = { id: 'id-0', type: 'function' as const, function: { name: 'pay', arguments: JSON.stringify(wrong) } };
  const response = {
    ...answerOf(['pay']),
    message: { role: 'assistant' as const, content: null, toolCalls: [asked] },
    calls: [{ callId: '1:0', call: asked }],
  };
  const intent = { type: 'tool.intent' as const, callId: '1:0', attempt: 1, arguments: wrong };

  const resumed = async (records: readonly TurnRecord[], policy: ToolPolicy) => {
    deadTurn(bench, [firstCall, response, ...records]);
    const bank = new Bank(parameters, policy);
    const model = bench.model([{ text: 'Done.' }]);
    const turn = AgentLoop.resume('t', bench.config(model, { toolProviders: [bank] }));
    const { messages } = await turn.result();
    return { told: messages.findLast(({ role }) => role === 'tool')?.content, received: bank.received };
  };

  it('U-18 runs again after a crash as its tool says: it is not refused for what it was let through with', async () => {
    const policy = { idempotent: true, onInDoubt: 'retry' as const };
    expect(await resumed([intent], policy)).toEqual({ told: 'paid', received: [wrong] });
  });

  it('U-18 is told to be unknown after a crash, where its tool does not say that it may run again', async () => {
    const { told, received } = await resumed([intent], {});
    expect([told, received]).toEqual([expect.stringContaining('OUTCOME_UNKNOWN'), []]);
  });

  it('U-18 is checked after a crash where it had not started', async () => {
    const { told, received } = await resumed([], {});
    expect([told, received]).toEqual([expect.stringContaining(words), []]);
  });

  it.each<readonly [string, AgentLoopConfig['argumentChecks'], readonly unknown[]]>([
    ['one that let it through', null, [wrong]],
    ['one that refused it', undefined, []],
  ])('U-18 replays the journal of %s, with the provider of today', async (_, argumentChecks, received) => {
    const bank = new Bank();
    const model = bench.model([calls(), { text: 'Done.' }]);
    const config = bench.config(model, { toolProviders: [bank], ...(argumentChecks === null && { argumentChecks }) });
    await new AgentLoop(config).startTurn(question, { taskId: 't' }).result();
    expect(bank.received).toEqual(received);
    const records = bench.store.read('t');
    for (const replayed of [replay(records), replay(records, { toolProviders: [new Bank()] })])
      expect(await replayed.result()).toMatchObject({ deviations: [], records });
  });
});
