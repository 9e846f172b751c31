/** @jest-config-loader esbuild-register */
import type { Config } from 'jest';
import common from '../../jest.config.ts';

const packages = '<rootDir>/tests/ai-sdk-7/node_modules';

/** The tests of providers and of clients with models of the interface v4 and `openai` 7, in place of v3 and 6: `npm run test:e2e` runs them on Node.js 22. */
const config: Config = {
  ...common,
  rootDir: '../..',
  testMatch: [
    ...['<rootDir>/tests/providers/**/*.test.ts', '<rootDir>/tests/real/vendors.e2e.ts'],
    ...['<rootDir>/tests/ui/openai-handler.test.ts', '<rootDir>/tests/real/openai-endpoint.e2e.ts'],
  ],
  testPathIgnorePatterns: ['/node_modules/'],
  moduleNameMapper: {
    ...common.moduleNameMapper,
    // Each package has its own version of provider-utils.
    '^@ai-sdk/((?!provider-utils$)[\\w-]+)$': `${packages}/@ai-sdk/$1`,
    '^openai$': `${packages}/openai`,
  },
  cacheDirectory: '<rootDir>/node_modules/.cache/jest-ai-sdk-7',
};

export default config;
