// SPDX-License-Identifier: Apache-2.0
// Style sheets are imported for esbuild, which bundles them.
declare module "*.css";
