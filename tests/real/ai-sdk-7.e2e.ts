import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from '@jest/globals';
import { describeReal } from './real-part.ts';

const run = promisify(execFile);

describeReal(['ai-sdk-7'], 'the packages of AI SDK 7 and openai 7', () => {
  it.each([
    ['models of other vendors by name', 'tests/real/vendors', 1],
    ['models of Anthropic, Google and OpenAI', 'tests/providers/ai-sdk/', 8],
    ['LiteLLMProvider', 'tests/providers/litellm-(recorded|provider|failures|cancel)', 4],
    ['openAIHandler', 'tests/ui/openai-handler', 1],
  ])('P-17 P-18 V-16 pass on Node.js 22 the tests of %s that those of v3 and 6 pass', async (_, path, files) => {
    const jest = ['node_modules/jest/bin/jest.js', '--config', 'tests/ai-sdk-7/jest.config.ts', '-w', '2', path];
    const node = ['-y', '-p', 'node@22', 'node', '--experimental-vm-modules', ...jest];
    const { stderr } = await run('npx', node, { maxBuffer: 2 ** 24 });
    const [, passed] = /^Test Suites: (\d+) passed, \1 total$/m.exec(stderr) ?? [];
    expect(Number(passed)).toBeGreaterThanOrEqual(files);
  });
});
