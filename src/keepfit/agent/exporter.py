# Run by `keepfit export`, with the interpreter that trained the model: GENERATION FILE.keras, the model's
# configuration at standard input.
import importlib
import os
import sys
import types

if __name__ == "__main__":
    package = types.ModuleType("_keepfit")
    package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
    sys.modules["_keepfit"] = package
    sys.path[:] = sys.path[1:]  # this folder, whose modules are not meant here
    sys.exit(importlib.import_module("_keepfit.agent.keras.export").main(*sys.argv[1:]))
