import { expect, it, jest } from '@jest/globals';
import { gptTokenizer } from 'millrace';

it('says which package to install where the tokenizer is not there', async () => {
  jest.unstable_mockModule('gpt-tokenizer/encoding/o200k_base', () => {
    throw new Error("Cannot find package 'gpt-tokenizer'");
  });
  await expect(gptTokenizer()).rejects.toMatchObject({
    code: 'MISSING_PACKAGE',
    message: 'The package "gpt-tokenizer" cannot be loaded; run `npm install gpt-tokenizer`.',
  });
});
