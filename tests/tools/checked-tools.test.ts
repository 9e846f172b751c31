import { expect, it } from '@jest/globals';
import { checkedTools, type JSONSchema, type ToolDefinition, type ToolProvider } from 'millrace';
import { thrownBy } from './thrown.ts';
import { listContext, toolCall, toolContext } from './tool-context.ts';

function definition(name: string, parameters: JSONSchema): ToolDefinition {
  return { type: 'function', function: { name, description: name, parameters }, timeoutMs: 7 };
}

class Remote implements ToolProvider {
  readonly asked: unknown[] = [];
  readonly #definitions: readonly ToolDefinition[];

  constructor(definitions: readonly ToolDefinition[]) {
    this.#definitions = definitions;
  }

  async getTools(context: unknown): Promise<readonly ToolDefinition[]> {
    this.asked.push(context);
    return this.#definitions;
  }

  async executeTool(): Promise<{ toolCallId: string; content: string; success: boolean }> {
    return { toolCallId: 'call_1', content: `${this.#definitions.length} tools`, success: true };
  }
}

const lookup = definition('lookup', { type: 'object', properties: { id: { type: 'integer' } }, required: ['id'] });

it('fills in the check of each definition and leaves the rest as it is', async () => {
  const own = () => ({ ok: true as const, value: 1 });
  const checked = checkedTools(new Remote([lookup, { ...definition('own', {}), checkArguments: own }]));
  const [first, second] = await checked.getTools(listContext);
  expect(first).toMatchObject(lookup);
  expect(await first?.checkArguments?.({ id: 'x' })).toEqual({ ok: false, message: 'arguments.id must be integer' });
  expect(first?.checkArguments?.({ id: 5 })).toEqual({ ok: true, value: { id: 5 } });
  expect(second?.checkArguments).toBe(own);
});

it('asks and runs the provider itself, under its name', async () => {
  const remote = new Remote([lookup]);
  const checked = checkedTools(remote);
  await checked.getTools(listContext);
  expect(remote.asked).toEqual([listContext]);
  expect(await checked.executeTool(toolCall('lookup'), toolContext())).toMatchObject({ content: '1 tools' });
  expect([
    checked.name,
    checkedTools({ ...remote, name: 'mine', getTools: () => [], executeTool: remote.executeTool }).name,
  ]).toEqual(['Remote', 'mine']);
});

it('names provider and tool of a schema that is not one', async () => {
  const checked = checkedTools(new Remote([lookup, definition('bad', { type: 'objekt' })]));
  const { code, message } = await thrownBy(() => checked.getTools(listContext));
  expect(code).toBe('INVALID_CONFIG');
  expect(message).toContain('The JSON Schema of tool "bad" of Remote is not valid: schema/type');
});
