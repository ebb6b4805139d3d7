import { join } from 'node:path';
import { expect, it } from 'vitest';
import { bundle } from '../../scripts/bundle.mjs';
import { renderNotices } from '../../scripts/notices.mjs';

const root = join(import.meta.dirname, '../..');

it('the notices carry the licence of every package that is in the bundle', async () => {
  const { metafiles } = await bundle();
  await expect(renderNotices(metafiles, root)).toMatchFileSnapshot(join(root, 'THIRD_PARTY_NOTICES.md'));
});
