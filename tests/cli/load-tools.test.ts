import { join } from 'node:path';
import { afterAll, describe, expect, it } from '@jest/globals';
import { loadTools } from 'millrace/internals';
import { thrownBy } from '../tools/thrown.ts';
import { toolCall, toolContext } from '../tools/tool-context.ts';
import { temporaryFolder } from './tools/temporary-folder.ts';

const parameters = `{ type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }`;
const greet = `{ name: 'greet', description: 'Greets.', parameters: ${parameters}, execute: ({ name }, { callId }) => 'hello ' + name + ' ' + callId`;
const folder = temporaryFolder({
  'good.mjs': `export default [${greet}, timeoutMs: 50, sequential: true }];`,
  'made.mjs': `export default [{
    definition: { type: 'function', function: { name: 'made', description: 'Made.', parameters: {} } },
    execute: () => 'made',
  }];`,
  'provider.mjs': `export default {
    getTools: async () => [],
    executeTool: async ({ id }) => ({ toolCallId: id, content: 'provided', success: true }),
  };`,
  'none.mjs': 'export default [];',
  'syntax.mjs': 'export default [\n  { name: },\n];',
  'throws.mjs': `throw new Error('no database');`,
  'imports.mjs': `import 'no-such-package-at-all';`,
  'named.mjs': 'export const tools = [];',
  'object.mjs': 'export default { tools: [] };',
  'typo.mjs': `export default [${greet} }, { ...${greet} }, name: 'other', timeout: 5 }];`,
  'null.mjs': 'export default [null];',
  'schema.mjs': `export default [{ name: 'x', description: 'X.', parameters: { type: 'object', required: 'a' }, execute() {} }];`,
  'twice.mjs': `export default [${greet} }, ${greet} }];`,
});

const nobody = { taskId: '', agentId: 'a', contextId: '', metadata: {}, authContext: undefined };

afterAll(() => folder.remove());

describe('loadTools', () => {
  it('offers the tools of a module and runs them', async () => {
    const tools = await loadTools(join(folder.path, 'good.mjs'));
    const [definition, ...others] = await tools.getTools(nobody);
    expect(others).toEqual([]);
    expect(definition).toMatchObject({
      type: 'function',
      function: { name: 'greet', description: 'Greets.' },
      timeoutMs: 50,
      sequential: true,
    });
    const call = toolCall('greet', { name: 'Ada' });
    expect((await tools.executeTool(call, toolContext())).content).toBe('hello Ada 1:0');
    await expect(tools.executeTool(toolCall('greet', {}), toolContext())).rejects.toThrow('arguments.name is required');
  });

  it('takes a tool provider as it is', async () => {
    const tools = await loadTools(join(folder.path, 'provider.mjs'));
    expect(await tools.executeTool(toolCall('any'), toolContext())).toMatchObject({ content: 'provided' });
  });

  it('takes tools that were made already, and an empty list', async () => {
    const made = await loadTools(join(folder.path, 'made.mjs'));
    expect((await made.executeTool(toolCall('made'), toolContext())).content).toBe('made');
    expect(await (await loadTools(join(folder.path, 'none.mjs'))).getTools(nobody)).toEqual([]);
  });

  const wrong: readonly (readonly [file: string, message: string | RegExp])[] = [
    ['absent.mjs', 'cannot be found; check the path.'],
    ['.', 'is not a file; name an ES module (.mjs or .js, or .ts with Node 22.18 or newer).'],
    ['syntax.mjs', /cannot be loaded: .*Unexpected token '}'; "node --check .*syntax\.mjs" shows where\.$/],
    ['throws.mjs', 'cannot be loaded: Error: no database.'],
    ['imports.mjs', /cannot be loaded: .*no-such-package-at-all/],
    ['named.mjs', 'must have an array of tools or a tool provider as its default export: export default [{ … }].'],
    ['object.mjs', 'must have an array of tools or a tool provider as its default export'],
    ['typo.mjs', 'has an invalid tool, #2: Tool "other": timeout is 5; it is no option of a tool; those are'],
    ['null.mjs', 'has an invalid tool, #1: A tool is described by an object, not by null.'],
    ['schema.mjs', '#1: The JSON Schema of tool "x" is not valid: schema/required must be array.'],
    ['twice.mjs', /#2: .* has a tool "greet" already; rename one of them\.$/],
  ];

  it.each(wrong)('reports %s', async (name, message) => {
    const file = join(folder.path, name);
    const error = await thrownBy(() => loadTools(file));
    expect(error.code).toBe('INVALID_CONFIG');
    expect(error.message).toMatch(message);
    expect(error.message.startsWith(`The tools file "${file}" `)).toBe(true);
  });
});
