import { defineConfig } from 'vitest/config';
import { constants } from './scripts/bundle.mjs';

/** Tests without processes and sockets. Each file has a context of its own: many of them set the clock. */
const fast = { pool: 'threads', testTimeout: 30_000 } as const;
/** Tests that start programs. Two files at once keep the clocks of the tests honest on a small machine. */
const slow = { pool: 'forks', maxWorkers: 2, hookTimeout: 120_000, globalSetup: 'scripts/bundle.mjs' } as const;

export default defineConfig({
  define: constants,
  test: {
    coverage: { provider: 'v8', include: ['src/**'] },
    projects: [
      { extends: true, test: { name: 'unit', include: ['test/unit/**/*.test.ts'], ...fast } },
      { extends: true, test: { name: 'docs', include: ['test/docs/**/*.test.ts'], ...fast } },
      { extends: true, test: { name: 'system', include: ['test/system/**/*.test.ts'], testTimeout: 60_000, ...slow } },
      {
        extends: true,
        test: { name: 'browser', include: ['test/browser/**/*.test.ts'], testTimeout: 120_000, ...slow },
      },
    ],
  },
});
