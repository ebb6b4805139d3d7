/** Replaced by the build and by the test set-up with the version in package.json. */
declare const BRIDGE_VERSION: string;

/** The version of this package, as `--version`, `serverInfo` and the info tool show it. */
export const bridgeVersion: string = BRIDGE_VERSION;
