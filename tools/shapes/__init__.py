"""Write files of real shapes with random weights, and time them beside llama.cpp and ik_llama.cpp."""
