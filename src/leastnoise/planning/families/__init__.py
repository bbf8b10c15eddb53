"""planning/families"""
