/** @jest-config-loader esbuild-register */
import type { Config } from 'jest';
import common from './jest.config.ts';

/** `npm run test:backends`: spans in real tracing backends, which are large to install. */
const config: Config = {
  ...common,
  testMatch: ['<rootDir>/tests/backends/*.e2e.ts'],
  testPathIgnorePatterns: ['/node_modules/'],
  moduleNameMapper: {
    ...common.moduleNameMapper,
    '^@opentelemetry/exporter-zipkin$': '<rootDir>/tests/backends/node_modules/@opentelemetry/exporter-zipkin',
  },
  verbose: true,
};

export default config;
