/** @jest-config-loader esbuild-register */
import type { Config } from 'jest';
import common from './jest.config.ts';
import { devDependencies, peerDependencies } from './package.json';

/** Packages of vendors that no checkout installs. */
const ofVendors = Object.keys(peerDependencies)
  .filter((name) => name.startsWith('@ai-sdk/') && !(name in devDependencies))
  .map((name) => name.slice('@ai-sdk/'.length));

/** `npm run test:e2e`: against real servers, which take their time. */
const config: Config = {
  ...common,
  testMatch: ['<rootDir>/tests/real/**/*.{e2e,test}.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  globalSetup: '<rootDir>/tests/real/find-parts.mjs',
  moduleNameMapper: {
    ...common.moduleNameMapper,
    [`^@ai-sdk/(${ofVendors.join('|')})$`]: '<rootDir>/tests/vendors/node_modules/@ai-sdk/$1',
  },
  verbose: true,
};

export default config;
