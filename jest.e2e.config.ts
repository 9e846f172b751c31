/** @jest-config-loader esbuild-register */
import type { Config } from 'jest';
import common from './jest.config.ts';

/** `npm run test:e2e`: against real servers, which take their time. */
const config: Config = {
  ...common,
  testMatch: ['<rootDir>/tests/real/**/*.{e2e,test}.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  globalSetup: '<rootDir>/tests/real/find-parts.mjs',
  reporters: ['default', '<rootDir>/tests/real/report-parts.mjs'],
  moduleNameMapper: {
    ...common.moduleNameMapper,
    '^@ai-sdk/(amazon-bedrock|deepseek|google-vertex|groq|mistral|xai)$':
      '<rootDir>/tests/vendors/node_modules/@ai-sdk/$1',
  },
  testTimeout: 120_000,
  verbose: true,
};

export default config;
