import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import { InMemoryStateStore } from 'millrace';
import { loadAgent } from 'millrace/internals';
import { thrownBy } from '../tools/thrown.ts';

const folder = mkdtempSync(join(tmpdir(), 'millrace-agents-'));
let files = 0;

function moduleOf(source: string): string {
  const file = join(folder, `agent-${files++}.mjs`);
  writeFileSync(file, source);
  return file;
}

const provider = `{ call: async () => ({ message: { role: 'assistant', content: 'Hello.' } }) }`;

describe('loadAgent', () => {
  it('makes an agent of the options that a module exports, and gives it what they leave open', async () => {
    const taskStateStore = new InMemoryStateStore();
    const file = moduleOf(`export default { name: 'ada', provider: ${provider} };`);
    const ada = await loadAgent(file, { taskStateStore, name: 'somebody' });
    expect(ada.name).toBe('ada');
    expect(ada.options.taskStateStore).toBe(taskStateStore);
    expect((await ada.run('Hi')).text).toBe('Hello.');
  });

  it('takes an agent of another copy of the package as it is, with what it leaves open', async () => {
    const file = moduleOf(`
      const made = (options) => ({
        name: 'far', options, startTurn() {}, resume() {}, close() {}, with: (changes) => made({ ...options, ...changes }),
      });
      export default made({ maxIterations: 3 });`);
    const far = await loadAgent(file, { maxIterations: 9, leaseMs: 500 });
    expect(far.options).toEqual({ maxIterations: 3, leaseMs: 500 });
  });

  it.each([
    ['no default export', 'export const agent = 1;', /must have an agent as its default export/],
    ['something else', 'export default 7;', /must have an agent as its default export/],
    ['options that are not right', `export default { provider: ${provider}, stray: 1 };`, /has no option "stray"/],
    ['a mistake', 'export default {', /cannot be loaded: SyntaxError/],
  ])('refuses a module with %s', async (_what, source, message) => {
    const error = await thrownBy(() => loadAgent(moduleOf(source)));
    expect(error).toMatchObject({ code: 'INVALID_CONFIG', message: expect.stringMatching(message) });
    expect(error.message).toMatch(/^The agent file "/);
  });

  it('refuses a file that is not there', async () => {
    expect((await thrownBy(() => loadAgent('nowhere.mjs'))).message).toMatch(/cannot be found; check the path/);
  });
});
