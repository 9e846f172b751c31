import { expect, it, jest } from '@jest/globals';
import { createProvider } from 'millrace/ai-sdk';

it.each([
  ['anthropic:claude-x', '@ai-sdk/anthropic', 3],
  ['google:gemini-x', '@ai-sdk/google', 3],
  ['openai:gpt-x', '@ai-sdk/openai', 3],
  ['bedrock:claude-x', '@ai-sdk/amazon-bedrock', 4],
  ['vertex:gemini-x', '@ai-sdk/google-vertex', 4],
  ['mistral:large', '@ai-sdk/mistral', 3],
  ['xai:grok-x', '@ai-sdk/xai', 3],
] as const)('%s says which package to install where it is not there', async (model, name, major) => {
  const missing = () => {
    throw new Error(`Cannot find package '${name}'`);
  };
  // No checkout installs some of them.
  jest.unstable_mockModule(name, missing, { virtual: true });
  await expect(createProvider(model, { apiKey: 'k', baseUrl: 'http://127.0.0.1:1' })).rejects.toMatchObject({
    code: 'MISSING_PACKAGE',
    message: `The package "${name}" cannot be loaded; run \`npm install ${name}@${major}\`.`,
  });
});
