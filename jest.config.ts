/** @jest-config-loader esbuild-register */
import type { Config } from 'jest';

const config: Config = {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/tests/**/*.test.ts'],
  // These have a configuration of their own.
  testPathIgnorePatterns: ['/node_modules/', '<rootDir>/tests/real/'],
  extensionsToTreatAsEsm: ['.ts'],
  transform: { '^.+\\.ts$': ['ts-jest', { useESM: true, diagnostics: false }] },
  globalSetup: '<rootDir>/tests/real/local-parts.mjs',
  // jest's own summary of failures repeats whole stack traces; the reporter names the failed tests instead.
  reporters: [
    ['default', { summaryThreshold: Number.MAX_SAFE_INTEGER }],
    ['<rootDir>/tests/report-run.mjs', {}],
  ],
  moduleNameMapper: {
    '^millrace$': '<rootDir>/.cache/tests/millrace.js',
    '^rxjs$': '<rootDir>/.cache/tests/rxjs/index.js',
    '^rxjs/testing$': '<rootDir>/.cache/tests/rxjs/testing.js',
    '^millrace/([\\w-]+)$': '<rootDir>/.cache/tests/millrace-$1.js',
  },
  cacheDirectory: '<rootDir>/node_modules/.cache/jest',
  // Tests of processes and of leases wait more than they work.
  maxWorkers: 3,
  // Modules of finished test files stay in a worker's heap, and collecting a large one slows down all that follow.
  workerIdleMemoryLimit: '700MB',
  // A worker that has ended frees a heap of some hundred MB, which takes more than the 500 ms that jest gives it on a busy machine. One with an
  // open handle never ends, and is still reported.
  workerGracefulExitTimeout: 10_000,
  // It stops a test that hangs; no test is decided by it, also where other programs use the processor.
  testTimeout: 300_000,
};

export default config;
