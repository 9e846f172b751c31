import { expect, it, jest } from '@jest/globals';
import { createProvider } from 'millrace/ai-sdk';

it.each([
  ['anthropic:claude-x', '@ai-sdk/anthropic', 3],
  ['google:gemini-x', '@ai-sdk/google', 3],
  ['openai:gpt-x', '@ai-sdk/openai-compatible', 2],
] as const)('%s says which package to install where it is not there', async (model, name, major) => {
  jest.unstable_mockModule(name, () => {
    throw new Error(`Cannot find package '${name}'`);
  });
  await expect(createProvider(model, { apiKey: 'k' })).rejects.toMatchObject({
    code: 'MISSING_PACKAGE',
    message: `The package "${name}" cannot be loaded; run \`npm install ${name}@${major}\`.`,
  });
});
